import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { startMeteredNode } from '../support/metered-node.ts'
import { usageRecords } from '../support/usage-records.ts'
import { filledWav } from '../support/wav.ts'

/** A second of audio. */
const AUDIO = { base64: filledWav(32_044, 1).toString('base64') }
const CALLERS = 6
/** Longer than records are gathered, and much longer than a turn of the loop takes. */
const GATHERED_MS = 500

t.test(
  'SIGKILL costs no record of a call whose caller has its answer, and whose money was settled',
  async (t) => {
    const node = await startMeteredNode(t)
    const acknowledged: { readonly id: string; readonly isKeyed: boolean; readonly atMs: number }[] = []
    let killedMs = 0
    async function caller(name: number): Promise<void> {
      for (let count = 0; killedMs === 0; count += 1) {
        const id = `caller.${name}.${count}`
        const isKeyed = count % 2 === 0
        // A call with a key is settled by itself, before its answer; of the others many are settled together, later.
        const headers = { 'x-lk-request-id': id, ...(isKeyed ? { 'idempotency-key': id } : {}) }
        const answered = isKeyed
          ? node.ask('POST', '/v1/transcription', { audio: AUDIO }, headers)
          : node.ask('POST', '/v1/chat', { messages: [{ role: 'user', content: 'hello' }] }, headers)
        const status = await answered.then((response) => response.status).catch(() => null)
        if (status === 200) acknowledged.push({ id, isKeyed, atMs: performance.now() })
        else if (status !== null) throw new Error(`${id}: ${status}`)
      }
    }
    const callers = Array.from({ length: CALLERS }, (_, name) => caller(name))
    while (acknowledged.length < 150) await sleep(5)
    killedMs = performance.now()
    await node.signal('SIGKILL')
    await Promise.all(callers)

    const records = await usageRecords(join(node.dataFolder, 'usage-segments'))
    const costs = new Map(records.map(({ request_id, cost_usd }) => [request_id, cost_usd]))
    t.equal(costs.size, records.length, 'each call has one')
    const settled = acknowledged.filter(({ isKeyed, atMs }) => isKeyed || atMs < killedMs - GATHERED_MS)
    t.ok(settled.some(({ isKeyed }) => !isKeyed) && settled.some(({ atMs }) => atMs > killedMs - 100))
    t.same(
      settled.filter(({ id }) => !((costs.get(id) ?? 0) > 0)).map(({ id }) => id),
      [],
    )
  },
)
