import t from 'tap'
import type { ShadowAnswer } from '../../src/console/server/answers/routes.ts'
import type { ShadowSample } from '../../src/contracts/console.ts'
import type { ShadowComparison, ShadowPair } from '../../src/contracts/shadow.ts'
import { ShadowTally } from '../../src/gateway/call/compare/shadow-tally.ts'
import { startConsoleBench } from '../support/console-bench.ts'
import { nodeSample } from '../support/console-record.ts'

const STEP_MS = 5_000
const PAIR: ShadowPair = {
  workspace: 'acme',
  route: 'acme.voice',
  operation: 'transcription',
  provider: 'deepgram',
  model: 'nova-3',
  shadowProvider: 'elevenlabs',
  shadowModel: 'scribe_v2',
}

const compared = (over: Partial<ShadowComparison> = {}): ShadowComparison => ({
  words: 100,
  errors: 3,
  milliseconds: { entry: 2_000, shadow: 1_200 },
  costUsd: { entry: 0.01, shadow: 0.006 },
  ...over,
})

/** Comparisons of a node, in its sample. */
function found(comparisons: readonly (ShadowComparison | null)[], pair = PAIR): readonly ShadowSample[] {
  const tally = new ShadowTally()
  for (const comparison of comparisons)
    tally.ended({ pair, outcome: comparison === null ? 'server' : 'ok', comparison })
  tally.ended({ pair, outcome: 'abandoned', comparison: null })
  if (comparisons.length > 1) tally.referred({ pair, words: 40, errors: { entry: 4, shadow: 3 } })
  const taken = tally.take()
  t.same(tally.take(), [], 'each sum is told once')
  return taken
}

t.test('a tally is bounded', async (t) => {
  const tally = new ShadowTally()
  for (let index = 0; index < 80; index += 1)
    for (let call = 0; call < 30; call += 1)
      tally.ended({ pair: { ...PAIR, model: `m${index}` }, outcome: 'ok', comparison: compared() })
  const taken = tally.take()
  t.equal(taken.length, 50)
  t.ok(taken.every(({ calls, milliseconds }) => calls === 30 && milliseconds.length === 20))
})

t.test('what shadows found is summed up over all nodes', async (t) => {
  const { visitors, state } = await startConsoleBench(t)
  const { samples } = state.console
  const endMs = (Math.floor(Date.now() / STEP_MS) - 120) * STEP_MS
  const elsewhere = { ...PAIR, workspace: 'other' }
  const told = [
    found([compared(), compared({ errors: 5, milliseconds: null, costUsd: null })]),
    [
      ...found([compared({ words: 50, errors: 0, milliseconds: { entry: 900, shadow: 2_500 } }), null]),
      ...found([compared()], elsewhere),
      ...found([null], { ...PAIR, model: 'nova-2' }),
    ],
  ]
  for (const [index, shadows] of told.entries())
    await samples.add(nodeSample(`node${index}`, endMs - index * STEP_MS, { shadows }), 3_600_000)
  const path = 'workspaces/acme/routes/acme.voice/shadow'
  const { status, body } = await visitors.admin.get(path)
  t.equal(status, 200)
  const { pairs } = body as unknown as ShadowAnswer
  t.same(pairs, [
    {
      operation: 'transcription',
      entry: { provider: 'deepgram', model: 'nova-3', p50_ms: 900, cost_usd: 0.02 },
      shadow: { provider: 'elevenlabs', model: 'scribe_v2', p50_ms: 1_200, cost_usd: 0.012 },
      calls: 4,
      failed: 1,
      compared: 3,
      words: 250,
      word_errors: 8,
      references: { count: 2, words: 80, entry_errors: 8, shadow_errors: 6 },
    },
    {
      operation: 'transcription',
      entry: { provider: 'deepgram', model: 'nova-2', p50_ms: null, cost_usd: null },
      shadow: { provider: 'elevenlabs', model: 'scribe_v2', p50_ms: null, cost_usd: null },
      ...{ calls: 1, failed: 1, compared: 0, words: 0, word_errors: 0 },
      references: { count: 0, words: 0, entry_errors: 0, shadow_errors: 0 },
    },
  ])
  t.equal((await visitors.admin.get('workspaces/other/routes/acme.voice/shadow')).status, 404)
})
