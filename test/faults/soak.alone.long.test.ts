import { writeFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { SoakSample } from '../../bench/soak.ts'
import { startFleet } from '../support/fleet.ts'
import { withoutServers } from '../support/servers.ts'
import { NO_TERMS } from '../support/state-under-test.ts'
import { waitUntil } from '../support/wait-until.ts'
import { SOAK_KINDS, SoakCallers, sampleOf } from './soak.ts'

/** `npm run soak` sets these. */
const MINUTES = Number(process.env.LARKWAY_TEST_SOAK_MINUTES ?? 2)
const RESULT = process.env.LARKWAY_TEST_SOAK_RESULT
const KILLED_EVERY_MS = Math.min(600_000, (MINUTES * 60_000) / 3)
const SAMPLED_EVERY_MS = Math.max(5_000, (MINUTES * 60_000) / 240)
/** Reservations of sessions that a kill broke are charged when they are over. */
const SETTLED_MS = 400_000

const LIVE = { features: ['word_timestamps'], hints: [], limits: {}, price: { per_hour_usd: 3.6 } }
const PRICE = {
  per_hour_usd: 0.36,
  per_1k_characters_usd: 0.015,
  per_1m_input_tokens_usd: 1,
  per_1m_output_tokens_usd: 2,
}

t.test(
  `${MINUTES} minutes of mixed traffic on two nodes, one of which is killed now and then`,
  { skip: withoutServers, timeout: MINUTES * 60_000 + SETTLED_MS + 120_000 },
  async (t) => {
    const capabilities = ['audio_input', 'audio_output', 'text']
    const entry = { provider: 'paid', model: 'morse-1', capabilities, live: LIVE, price: PRICE }
    const fleet = await startFleet(t, {
      ...{ nodes: 2, redis: { durable: true }, s3: 'shared' },
      env: { LARKWAY_METRICS_PORT: '0', LARKWAY_USAGE: 'true' },
      providers: { paid: { kind: 'sandbox', access: 'platform' } },
      workspaces: {
        acme: {
          entries: [entry],
          key: { scopes: ['operator', 'inference', 'jobs', 'queue'] },
          terms: { credits_usd: 10_000, grant_id: 'first' },
        },
        long: {
          entries: [{ ...entry, limits: { max_audio_seconds: 20 } }],
          terms: { credits_usd: 10_000, grant_id: 'first' },
        },
      },
      config: { limits: { max_audio_bytes: 100 * 1024 ** 2, max_request_body_bytes: 100 * 1024 ** 2 } },
    })
    const samples: SoakSample[] = []
    const startMs = performance.now()
    const elapsedMs = () => performance.now() - startMs
    const callers = new SoakCallers(t, fleet)
    let killed = 0
    for (let killMs = KILLED_EVERY_MS; elapsedMs() < MINUTES * 60_000; await sleep(SAMPLED_EVERY_MS)) {
      for (const [at, node] of fleet.nodes.entries())
        samples.push(await sampleOf(node, at, elapsedMs() / 1_000))
      if (elapsedMs() < killMs) continue
      // The first node is left alone: its memory is looked at.
      await fleet.restartNode(1, 'SIGKILL')
      killed += 1
      killMs += KILLED_EVERY_MS
    }
    const { done, broken, faults } = await callers.stop()
    t.same(faults.slice(0, 10), [])
    for (const kind of SOAK_KINDS)
      t.ok(done[kind] > 0, `${kind}: ${done[kind]}, ${broken[kind]} broken by kills`)

    const { accounts } = await fleet.openState()
    const heldBy = async (workspace: string) => (await accounts.show(workspace, NO_TERMS)).reservedMicros
    const settled = async () => (await heldBy('acme')) + (await heldBy('long')) === 0
    t.ok(await waitUntil(settled, SETTLED_MS), 'nothing is held')
    const headers = { authorization: fleet.authorizationOf('acme') }
    const books = async () => {
      const answer = await fetch(`${fleet.node(0).url}/v1/admin/books`, { headers })
      return (await answer.json()) as { readonly total: { readonly difference_usd: number | null } }
    }
    t.ok(await waitUntil(async () => (await books()).total?.difference_usd === 0, 180_000), 'one book')
    t.comment(done, broken, `${killed} kills`)
    const report = {
      minutes: MINUTES,
      killed,
      done,
      broken,
      faults: faults.length,
      books: await books(),
      samples,
    }
    if (RESULT !== undefined) await writeFile(RESULT, `${JSON.stringify(report, null, 1)}\n`)
  },
)
