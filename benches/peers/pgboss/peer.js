// pg-boss as a peer: see ../run.py for what a peer's program is asked and says.
//
// Its cron has minute resolution, so both workloads are jobs inserted beforehand, each with its startAfter. Tuned:
// 20 workers that fetch up to 500 jobs each, every 0.5 s (its shortest), one after the other within that time, and
// at once after a full batch. It keeps its finished jobs, as a ledger would.
import PgBoss from 'pg-boss'

const QUEUE = 'tick'
const WORKERS = 20
const POLL_S = 0.5
const BATCH = 500

async function open (url) {
  const boss = new PgBoss({ connectionString: url, max: WORKERS })
  boss.on('error', error => console.error(error.message))
  await boss.start()
  return boss
}

// Seconds 0: each once, all at `first`; else each every second, the phases spread over the second.
async function load (url, schedules, first, seconds) {
  const boss = await open(url)
  await boss.createQueue(QUEUE)
  const jobs = []
  for (let second = 0; second < Math.max(seconds, 1); second++) {
    for (let schedule = 0; schedule < schedules; schedule++) {
      const phase = seconds === 0 ? 0 : Math.floor(1000 * schedule / schedules)
      const planned = first + 1000 * second + phase
      jobs.push({ name: QUEUE, data: { schedule, planned }, startAfter: new Date(planned).toISOString() })
    }
  }
  for (let i = 0; i < jobs.length; i += 5000) await boss.insert(jobs.slice(i, i + 5000))
  await boss.stop({ wait: true })
}

async function node (url) {
  const boss = await open(url)
  const runs = []
  for (let i = 0; i < WORKERS; i++) {
    const options = { batchSize: BATCH, pollingIntervalSeconds: POLL_S, priority: false }
    const worker = await boss.work(QUEUE, options, async jobs => {
      if (jobs.length === BATCH) boss.notifyWorker(worker)
      for (const { data: { schedule, planned } } of jobs) {
        const started = Math.floor((performance.timeOrigin + performance.now()) * 1000)
        runs.push([schedule, planned, started])
      }
    })
    await new Promise(resolve => setTimeout(resolve, 1000 * POLL_S / WORKERS))
  }
  console.log('ready')
  let said = 0
  const counts = setInterval(() => {
    if (runs.length !== said) console.log(`ran ${said = runs.length}`)
  }, 5)
  for await (const _ of process.stdin); // until its end
  clearInterval(counts)
  await boss.stop({ wait: true, timeout: 20_000 })
  process.stdout.write(runs.map(run => `run ${run.join(' ')}\n`).join(''))
}

const [command, url, variant, ...numbers] = process.argv.slice(2)
if (variant !== 'batch') throw new Error(`no variant ${variant}`)
if (command === 'load') await load(url, ...numbers.map(Number))
else if (command === 'node') await node(url)
else throw new Error('load URL VARIANT SCHEDULES FIRST_MS SECONDS | node URL VARIANT')
