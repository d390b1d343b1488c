// Offers the zone of the browser beside those that the page names.
const zones = document.getElementById("zones");
const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
if (zones && own && ![...zones.options].some((it) => it.value === own)) {
  const option = document.createElement("option");
  option.value = own;
  zones.prepend(option);
}
