import t from 'tap'
import type { NodeSample } from '../../../../src/contracts/console.ts'
import type { AttemptRecord } from '../../../../src/contracts/recorder.ts'
import { FAILURE_KINDS, type FailureKind } from '../../../../src/contracts/upstream.ts'
import { SampleWindow } from '../../../../src/gateway/observe/alerts/sample-window.ts'
import { Tallies, TOLD_MODELS_MAX } from '../../../../src/gateway/observe/recorder/tally.ts'
import { nodeSample } from '../../../support/console-record.ts'

/** @param kind how it failed; null: it did not */
function attempt(provider: string, model: string, kind: FailureKind | null = null): AttemptRecord {
  const failure = kind && {
    kind,
    status: null,
    reason: 'it failed',
    retryAfterMs: null,
    providerMessage: null,
  }
  const status = kind === null ? 200 : null
  return { provider, model, replica: null, milliseconds: 5, status, reason: 'ok', failure }
}

const times = <One>(count: number, one: One): One[] => Array.from({ length: count }, () => one)

/** What alerts read of these samples. */
async function readBack(samples: readonly NodeSample[], nowMs: number) {
  const window = new SampleWindow({ since: async () => samples })
  await window.read(nowMs, 300_000)
  return window.calls(nowMs, 300_000)
}

t.test('what was not sent does not count, and what is the fault of the call is no failure', async (t) => {
  const tallies = new Tallies()
  const workspace = tallies.ofWorkspace('acme')
  for (const kind of FAILURE_KINDS) workspace.attempted([attempt('one', kind, kind), attempt('one', kind)])
  const { kept } = tallies.attempts()
  const counted = new Map(kept.map(([, model, sent, failed]) => [model, { sent, failed }]))
  for (const kind of FAILURE_KINDS) {
    const isOfCall = ['limit', 'caller', 'content'].includes(kind)
    const expected = kind === 'busy' ? { sent: 1, failed: 0 } : { sent: 2, failed: isOfCall ? 0 : 1 }
    t.same(counted.get(kind), expected, kind)
  }
  const [shown] = tallies.all().upstream
  t.match(shown, { calls: 2 * FAILURE_KINDS.length, failed: FAILURE_KINDS.length }, 'the console shows all')
})

t.test('a model of which nothing was sent is not told of', async (t) => {
  const tallies = new Tallies()
  tallies.ofWorkspace('acme').attempted(times(30, attempt('one', 'm', 'busy')))
  t.same(tallies.attempts(), { kept: [], leftOut: 0 })
})

t.test('a provider that seldom fails is judged by all of its steps', async (t) => {
  const tallies = new Tallies()
  const nowMs = 1_900_000_000_000
  const samples: NodeSample[] = []
  for (let step = 0; step < 60; step += 1) {
    const [acme, other] = [tallies.ofWorkspace('acme'), tallies.ofWorkspace('other')]
    // Twenty-five others, and models of the same one, fail in each step: that is all that the console has room for.
    for (let at = 0; at < 25; at += 1)
      acme.attempted([
        ...times(2, attempt(`bad-${at}`, 'm', 'server')),
        attempt('good', `bad-${at}`, 'server'),
      ])
    acme.attempted(times(2, attempt('good', 'm')))
    other.attempted([attempt('good', 'm'), attempt('good', 'm', step % 10 === 0 ? 'server' : null)])
    const { kept, leftOut } = tallies.attempts()
    t.equal(leftOut, 0)
    samples.push(nodeSample('one', nowMs - step * 5_000, { attempts: kept, all: tallies.all() }))
    tallies.clear()
  }
  const found = await readBack(samples, nowMs)
  t.match(
    found.find(({ provider, model }) => provider === 'good' && model === 'm'),
    { calls: 240, failed: 6 },
  )
})

t.test(
  'too many models are cut by their calls, not by their failures, and none by those of others',
  async (t) => {
    const tallies = new Tallies()
    const evil = tallies.ofWorkspace('evil')
    for (let at = 0; at < TOLD_MODELS_MAX + 100; at += 1)
      evil.attempted(times(3, attempt('evil', `m-${at}`, 'server')))
    evil.attempted(times(4, attempt('evil', 'called-most')))
    tallies.ofWorkspace('acme').attempted([attempt('platform', 'seldom')])
    const { kept, leftOut } = tallies.attempts()
    t.equal(kept.length, TOLD_MODELS_MAX)
    t.equal(leftOut, 102)
    for (const name of ['called-most', 'seldom'])
      t.ok(
        kept.some(([, model]) => model === name),
        name,
      )
    t.ok(JSON.stringify(kept).length < 40_000, `${JSON.stringify(kept).length} bytes`)
  },
)
