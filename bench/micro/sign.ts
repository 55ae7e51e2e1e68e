// When does a worker thread pay for signing webhooks? Signs several numbers of deliveries inline and through the pool,
// with one secret and with two, and measures what each costs the event loop and the whole process. Justifies
// SIGN_OFFLOAD_COUNT in src/gateway/workers/pool.ts.
// Run: node bench/micro/sign.ts

import { randomBytes } from 'node:crypto'
import { cpus } from 'node:os'
import { Piscina } from 'piscina'
import type { Signable, Signatures } from '../../src/contracts/webhooks.ts'
import { signWebhook } from '../../src/gateway/workers/webhook-signature.ts'
import { compareWays } from './ways.ts'

const COUNTS = [1, 2, 4, 8, 16, 32, 64, 128, 256]
const MIB = 1024 * 1024
/** Ways are compared by volume; a delivery counts as so much, which makes a measurement of 8,192 of them. */
const DELIVERY_BYTES = 8 * 1024
const SECRETS = [1, 2].map(() => `whsec_${randomBytes(32).toString('base64')}`)

const pool = new Piscina<readonly Signable[], Signatures[]>({
  filename: new URL('../../src/gateway/workers/webhook-signature.ts', import.meta.url).href,
  name: 'signAll',
  minThreads: 1,
  maxThreads: 1,
})

const rows: object[] = []
for (const secrets of [SECRETS.slice(1), SECRETS]) {
  for (const count of COUNTS) {
    const signables = Array.from({ length: count }, (_, index): Signable => {
      const body = JSON.stringify({
        type: 'transcription.job.succeeded',
        job_id: 'tj_01kaf2c3d4e5f6g7h8j9kmnpqr',
        status: 'succeeded',
        occurred_at: '2026-11-20T10:00:00.000Z',
      })
      return { id: 'evt_01kaf2c3d4e5f6g7h8j9kmnpqr', timestamp: 1_795_000_000 + index, body, secrets }
    })
    const costs = await compareWays(count * DELIVERY_BYTES, {
      inline: () => void signables.map(signWebhook),
      worker: () => pool.run(signables),
    })
    for (const { way, loop_us_per_mib, cpu_us_per_mib } of costs) {
      const perTask = (usPerMib: number) => Math.round((usPerMib * count * DELIVERY_BYTES) / MIB)
      const [loop_us, cpu_us] = [perTask(loop_us_per_mib), perTask(cpu_us_per_mib)]
      rows.push({ secrets: secrets.length, count, way, loop_us, cpu_us })
    }
  }
}
await pool.destroy()
console.table(rows)
console.log(JSON.stringify({ bench: 'sign', node: process.version, cpu: cpus()[0]?.model, rows }))
