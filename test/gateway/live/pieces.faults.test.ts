import { setTimeout as sleep } from 'node:timers/promises'
import { type Test, test } from 'tap'
import type { Entry } from '../../../src/contracts/catalog.ts'
import type { ModelFacts } from '../../../src/contracts/provider.ts'
import type { AdmittedContext } from '../../../src/gateway/call/context/call-context.ts'
import { facts, principal, route } from '../../support/catalog.ts'
import { entryAt } from '../../support/gateway-rig.ts'
import { type LiveClient, openLive, wordsEntry } from '../../support/live-rig.ts'
import {
  RATE,
  serveWordFiles,
  serveWords,
  WORD_SECONDS,
  type WordFiles,
  wordsAudio,
  wordsText,
} from '../../support/live-words.ts'

/** As the live facts of the rig have it: 3.6 USD an hour. A file costs a tenth of that. */
const LIVE_MICROS = 1_000
const FILE_MICROS = 100
const CREDITS = 1_000_000
/** Words are 100 ms apart: that is a pause here. */
const QUERY = `sample_rate=${RATE}&timestamps=word&endpointing_ms=100`

/** A provider that dies after some audio, and refuses whoever comes back. */
const dyingAt = (t: Test, afterSeconds: number) =>
  serveWords(t, {
    death: (connection) =>
      connection === 0 ? { how: 'reset', afterSeconds } : { how: 'refuse', afterSeconds: 0 },
  })

function filesEntry({ origin }: WordFiles, name: string, more: Partial<ModelFacts> = {}): Entry {
  const entry = entryAt(origin)
  const { provider } = entry
  const made = facts({ capabilities: ['audio_input'], price: { per_hour_usd: 0.36 }, ...more })
  return { ...entry, provider: { ...provider, name }, model: 'whisper-1', facts: made }
}

async function open(t: Test, entries: readonly Entry[], liveFallback: 'none' | 'batch' = 'batch') {
  const { workspace } = principal()
  const terms = { grant: { id: 'initial', micros: CREDITS }, trial: null, budgetMicros: null }
  const rig = await openLive(t, entries, {
    caller: { route: route(entries, { liveFallback }), workspace: { ...workspace, terms } },
  })
  const contexts: AdmittedContext[] = []
  const opened = rig.live.open.bind(rig.live)
  rig.live.open = (request) => {
    contexts.push(request.context)
    return opened(request)
  }
  /** What the account was charged when nothing is reserved any more, micro-USD. */
  const charged = async () => {
    for (;;) {
      await rig.services.moneyLeases.giveBack(workspace.id)
      const view = await rig.services.state.accounts.show(workspace.id, terms)
      if (view.reservedMicros === 0 && rig.live.count === 0) return CREDITS - view.creditsMicros
      await sleep(20)
    }
  }
  return { ...rig, contexts, charged }
}

function checkTimes(t: Test, words: unknown): void {
  for (const [index, { start, end }] of (words as { start: number; end: number }[]).entries()) {
    t.ok(Math.abs(start - index * WORD_SECONDS) < 0.05, `word ${index} begins at ${start}`)
    t.ok(Math.abs(end - index * WORD_SECONDS - 0.3) < 0.05, `word ${index} ends at ${end}`)
  }
}

const errorOf = async (caller: LiveClient) =>
  ((await caller.message('error')) as unknown as { error: { code: string } }).error.code

test('a session without a live entry goes on in pieces, as files of another', async (t) => {
  const dying = await dyingAt(t, 1.25)
  const files = await serveWordFiles(t)
  const rig = await open(t, [wordsEntry(dying.origin, 'first'), filesEntry(files, 'files')])
  const caller = rig.connect(QUERY)
  await caller.message('ready')
  const audio = wordsAudio(0, 22)
  await caller.speak(audio.subarray(0, RATE * 2 * 7.2))
  caller.send({ type: 'finalize', id: 'here' })
  t.match(await caller.message('finalized'), { id: 'here', settled_seconds: 7.2 })
  await caller.speak(audio.subarray(RATE * 2 * 7.2))
  caller.send({ type: 'end' })
  const done = await caller.message('done')
  t.equal(await caller.closed, 1000)
  t.equal(caller.text, wordsText(22), 'every word once, in order')
  t.equal(done.content, wordsText(22))
  checkTimes(t, done.words)
  const [switched, ...more] = caller.of('switched')
  t.same(more, [])
  t.match(switched, {
    from: { provider: 'first' },
    to: { provider: 'files', model: 'whisper-1' },
    lost_seconds: 0,
    warnings: [/^live: .* in pieces/],
  })
  t.ok(Number(switched!.replayed_seconds) > 0, 'what the first had not settled was sent again')
  t.ok(files.heard.length >= 3, `${files.heard.length} pieces`)
  t.match(done, { provider: 'files', duration_seconds: 22 * WORD_SECONDS })

  // Audio that both heard is paid to both.
  const inFiles = files.heard.map((heard) => Math.ceil(heard * FILE_MICROS - 1e-6))
  const micros = inFiles.reduce((sum, one) => sum + one, 0)
  const live = dying.heard[0]!
  const cost = Math.round(Number(done.cost_usd) * 1_000_000)
  t.ok(cost - micros >= live * LIVE_MICROS, `${cost} micro-USD, ${micros} of them for files`)
  t.ok(cost - micros <= (live + 1) * LIVE_MICROS, 'and of the first no more than was on its way')
  t.equal(await rig.charged(), cost, 'to the micro-USD')
  t.equal(rig.live.heldBytes, 0)
})

test('nobody connects at first, and a route may send the session to files at once', async (t) => {
  const dead = await serveWords(t, { death: () => ({ how: 'refuse', afterSeconds: 0 }) })
  const files = await serveWordFiles(t)
  const rig = await open(t, [wordsEntry(dead.origin, 'first'), filesEntry(files, 'files')])
  const caller = rig.connect(QUERY)
  await caller.message('ready')
  await caller.speak(wordsAudio(0, 4), 4)
  caller.send({ type: 'end' })
  const done = await caller.message('done')
  t.equal(done.content, wordsText(4))
  t.match(caller.of('switched'), [{ from: { provider: 'first' }, to: { provider: 'files' } }])
  t.equal(done.cost_usd, 0.00016)
  t.equal(await rig.charged(), 160)
})

const CLOSED: Readonly<
  Record<string, { readonly query?: string; readonly lacks?: ModelFacts['features']; readonly off?: true }>
> = {
  'the route does not allow it': { off: true },
  'the entry lacks a required feature for files': { lacks: ['segment_timestamps'] },
  'speakers are to be told apart': { query: `${QUERY}&diarization=true` },
}

for (const [name, { query = QUERY, lacks, off }] of Object.entries(CLOSED))
  test(`no file is sent where ${name}`, async (t) => {
    const dying = await dyingAt(t, 0.5)
    const files = await serveWordFiles(t)
    const first = wordsEntry(dying.origin, 'first')
    const able = { ...first.facts.live!, features: [...first.facts.live!.features, 'diarization' as const] }
    const entries = [
      { ...first, facts: { ...first.facts, live: able } },
      filesEntry(files, 'files', lacks === undefined ? {} : { features: lacks }),
    ]
    const rig = await open(t, entries, off ? 'none' : 'batch')
    const caller = rig.connect(query)
    await caller.message('ready')
    await caller.speak(wordsAudio(0, 3))
    t.equal(await errorOf(caller), 'UPSTREAM_ERROR')
    t.equal(await caller.closed, 4502)
    t.same(files.heard, [])
  })

test('a file that nobody transcribes ends the session, and is not paid', async (t) => {
  const dead = await serveWords(t, { death: () => ({ how: 'refuse', afterSeconds: 0 }) })
  const files = await serveWordFiles(t, (file) => (file === 0 ? null : 'failure'))
  const rig = await open(t, [wordsEntry(dead.origin, 'first'), filesEntry(files, 'files')])
  const caller = rig.connect(QUERY)
  await caller.message('ready')
  await caller.speak(wordsAudio(0, 2), 4)
  caller.send({ type: 'finalize', id: '1' })
  await caller.message('finalized')
  t.equal(caller.text, wordsText(2))
  await caller.speak(wordsAudio(2, 4), 4)
  caller.send({ type: 'end' })
  t.equal(await errorOf(caller), 'UPSTREAM_ERROR')
  t.equal(await caller.closed, 4502)
  t.equal(await rig.charged(), 80)
})

test('a caller who leaves while a file is transcribed pays its estimate, once', async (t) => {
  const dead = await serveWords(t, { death: () => ({ how: 'refuse', afterSeconds: 0 }) })
  const files = await serveWordFiles(t, () => 'silence')
  const rig = await open(t, [wordsEntry(dead.origin, 'first'), filesEntry(files, 'files')])
  const caller = rig.connect(QUERY)
  await caller.message('ready')
  await caller.speak(wordsAudio(0, 2), 4)
  caller.send({ type: 'end' })
  while (files.heard.length === 0) await sleep(20)
  caller.socket.terminate()
  await caller.closed
  t.equal(await rig.charged(), 80)
  t.equal(rig.contexts[0]!.money.costUsd, 0.00008)
  while (rig.services.budget.used > 0) await sleep(20)
})

test('a live entry that is there again takes the session back', async (t) => {
  const back = await serveWords(t, {
    death: (connection) =>
      connection === 0
        ? { how: 'close', afterSeconds: 1.05 }
        : connection === 1
          ? { how: 'refuse', afterSeconds: 0 }
          : null,
  })
  const files = await serveWordFiles(t)
  const rig = await open(t, [wordsEntry(back.origin, 'first'), filesEntry(files, 'files')])
  const caller = rig.connect(QUERY)
  await caller.message('ready')
  await caller.speak(wordsAudio(0, 45))
  caller.send({ type: 'end' })
  const done = await caller.message('done')
  t.equal(caller.text, wordsText(45), 'every word once, in order')
  checkTimes(t, done.words)
  t.match(caller.of('switched'), [
    { from: { provider: 'first' }, to: { provider: 'files' } },
    { from: { provider: 'files' }, to: { provider: 'first' }, lost_seconds: 0 },
  ])
  t.equal(back.heard.length, 3)
  t.equal(await rig.charged(), Math.round(Number(done.cost_usd) * 1_000_000))
})
