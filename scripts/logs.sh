# shellcheck shell=bash
# logs.sh, sourced: `keep_logs NAME` sets `logs` to a new folder below target/NAME. When the script ends, the folder
# is removed, unless the script failed: the last five such folders stay, with the last 4 MiB of each file.
keep_logs() {
    local all=${CARGO_TARGET_DIR:-target}/$1
    logs=$all/$(date +%Y%m%dT%H%M%S)-$$
    mkdir -p "$logs"
    printf '%s\n' "$all"/* | sort | head -n -5 | xargs -r -d '\n' rm -rf
    trap 'end_logs $?' EXIT
    trap 'exit 143' TERM
}

end_logs() {
    local file
    if [ "$1" = 0 ]; then
        rm -rf "$logs"
        return
    fi
    find "$logs" -type f -size +4M | while read -r file; do
        tail -c 4M "$file" >"$file.end"
        mv "$file.end" "$file"
    done
}
