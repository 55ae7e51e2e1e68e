import { test } from 'tap'
import type { Entry } from '../../../src/contracts/catalog.ts'
import { type LiveRig, openLive, wordsEntry, wordsSession } from '../../support/live-rig.ts'
import type { WordsOrders } from '../../support/live-words.ts'
import { RATE, serveWords, WORD_SECONDS, wordsAudio, wordsText } from '../../support/live-words.ts'

test('a session says what it hears as it comes, and the whole at its end', async (t) => {
  const provider = await serveWords(t)
  const rig = await openLive(t, [wordsEntry(provider.origin, 'first')])
  const caller = rig.connect(`sample_rate=${RATE}&timestamps=both&prompt=names`)
  const ready = await caller.message('ready')
  t.equal(ready.provider, 'first')
  t.match(ready.limits, { live_buffer_seconds: 30 })
  t.match(ready.warnings, [/^prompt: left out/])
  t.equal(caller.socket.protocol, 'larkway.v1')

  await caller.speak(wordsAudio(0, 5))
  await caller.message('final', 4)
  caller.send({ type: 'end' })
  const done = await caller.message('done')
  t.equal(await caller.closed, 1000)
  t.equal(caller.text, wordsText(5))
  t.ok(caller.of('partial').length > 0, 'unfinished text came')
  t.match(done, {
    content: wordsText(5),
    status: 'succeeded',
    provider: 'first',
    duration_seconds: 5 * WORD_SECONDS,
    usage: { audio_seconds: 2, billable_audio_seconds: 2 },
    cost_usd: 0.002,
    warnings: [/^prompt: left out/],
  })
  const words = done.words as { word: string; start: number; end: number }[]
  for (const [index, { word, start }] of words.entries()) {
    t.equal(word, `w${index}`)
    t.ok(Math.abs(start - index * WORD_SECONDS) < 0.001, `${word} at ${start}`)
  }
  t.equal(rig.live.count, 0)
  t.equal(rig.live.heldBytes, 0)
})

const REFUSING: WordsOrders = { death: () => ({ how: 'refuse', afterSeconds: 0 }) }

for (const how of ['reset', 'close', 'silence'] as const)
  test(`another entry goes on when the provider dies by ${how}`, async (t) => {
    const dying = await serveWords(t, { death: () => ({ how, afterSeconds: 1.25 }) })
    const sound = await serveWords(t)
    const rig = await openLive(t, [wordsEntry(dying.origin, 'first'), wordsEntry(sound.origin, 'second')])
    const caller = rig.connect(`sample_rate=${RATE}&timestamps=word`)
    await caller.message('ready')
    await caller.speak(wordsAudio(0, 8))
    caller.send({ type: 'end' })
    const done = await caller.message('done')
    t.equal(caller.text, wordsText(8), 'every word once, in order')
    t.equal(done.content, wordsText(8))
    const [switched, ...more] = caller.of('switched')
    t.same(more, [])
    t.match(switched, { from: { provider: 'first' }, to: { provider: 'second' }, lost_seconds: 0 })
    const words = done.words as { word: string; start: number }[]
    for (const [index, { start }] of words.entries())
      t.ok(Math.abs(start - index * WORD_SECONDS) < 0.05, `word ${index} at ${start}`)
  })

test('another entry goes on when the provider fails along with its being ready', async (t) => {
  const first = await serveWords(t, { death: () => ({ how: 'at once', afterSeconds: 0 }) })
  const second = await serveWords(t)
  const rig = await openLive(t, [wordsEntry(first.origin, 'first'), wordsEntry(second.origin, 'second')])
  const caller = await wordsSession(rig, 4)
  t.equal(caller.text, wordsText(4))
  t.match(caller.of('switched'), [{ from: { provider: 'first' }, to: { provider: 'second' } }])
})

test('the same entry is tried again when it had worked, and no other is left', async (t) => {
  const provider = await serveWords(t, {
    death: (connection) => (connection < 2 ? { how: 'reset', afterSeconds: 0.9 } : null),
  })
  const rig = await openLive(t, [wordsEntry(provider.origin, 'only')])
  const caller = await wordsSession(rig, 9)
  t.equal(caller.text, wordsText(9))
  t.equal(caller.of('switched').length, 2)
})

test('a provider that never worked is left for good', async (t) => {
  const provider = await serveWords(t, REFUSING)
  const rig = await openLive(t, [wordsEntry(provider.origin, 'only')])
  const caller = rig.connect()
  const { error } = (await caller.message('error')) as unknown as { error: { code: string } }
  t.equal(error.code, 'UPSTREAM_ERROR')
  t.equal(await caller.closed, 4502)
})

/** What other sessions and calls have left: the breaker of an entry is open. */
function openBreaker({ services: { health } }: LiveRig, entry: Entry): void {
  const broken = {
    kind: 'server',
    status: 503,
    reason: 'down',
    retryAfterMs: null,
    providerMessage: null,
  } as const
  for (let failure = 0; failure < 5; failure += 1) health.failed(entry, broken, performance.now())
}

/** As after a trial call that was answered. */
function closeBreaker({ services: { health } }: LiveRig, entry: Entry): void {
  const triedMs = health.view(entry, performance.now()).untilMs! + 1
  health.admit(entry, triedMs)
  health.succeeded(entry, triedMs)
}

for (const known of ['before the session begins', 'while it connects'])
  test(`an entry is tried although its breaker is open, when no other is left: it opened ${known}`, async (t) => {
    const entries: Entry[] = []
    const refusing = await serveWords(t, {
      death: () => {
        if (known === 'while it connects') openBreaker(rig, entries[1]!)
        return { how: 'refuse', afterSeconds: 0 }
      },
    })
    const sound = await serveWords(t)
    entries.push(wordsEntry(refusing.origin, 'first'), wordsEntry(sound.origin, 'second'))
    const rig: LiveRig = await openLive(t, entries)
    if (known !== 'while it connects') openBreaker(rig, entries[1]!)
    const caller = rig.connect()
    await caller.message('ready')
    await caller.speak(wordsAudio(0, 4), 4)
    caller.send({ type: 'end' })
    await caller.message('done')
    t.equal(await caller.closed, 1000)
    t.equal(caller.text, wordsText(4))
    t.match(caller.of('switched'), [{ from: { provider: 'first' }, to: { provider: 'second' } }])
    t.equal(refusing.heard.length, 1)
  })

for (const state of ['open', 'closed again'])
  test(`in the middle, an entry that was passed over at first goes on: its breaker is ${state}`, async (t) => {
    const dying = await serveWords(t, {
      death: (connection) =>
        connection === 0 ? { how: 'reset', afterSeconds: 0.9 } : { how: 'refuse', afterSeconds: 0 },
    })
    const sound = await serveWords(t)
    const entries = [wordsEntry(dying.origin, 'first'), wordsEntry(sound.origin, 'second')]
    const rig = await openLive(t, entries)
    openBreaker(rig, entries[1]!)
    const caller = rig.connect()
    await caller.message('ready')
    if (state === 'closed again') closeBreaker(rig, entries[1]!)
    await caller.speak(wordsAudio(0, 6))
    caller.send({ type: 'end' })
    await caller.message('done')
    t.equal(caller.text, wordsText(6), 'every word once, in order')
    t.match(caller.of('switched'), [{ to: { provider: 'second' }, lost_seconds: 0 }])
    t.equal(dying.heard.length, state === 'open' ? 2 : 1, 'one that is well is asked before it')
  })

test('entries whose breakers are open are tried once each, the one that opened first before the others', async (t) => {
  const servers = [
    await serveWords(t, REFUSING),
    await serveWords(t, REFUSING),
    await serveWords(t, REFUSING),
  ]
  const entries = servers.map(({ origin }, at) => wordsEntry(origin, `e${at}`))
  const rig = await openLive(t, entries)
  openBreaker(rig, entries[2]!)
  openBreaker(rig, entries[1]!)
  const caller = rig.connect()
  const { error } = (await caller.message('error')) as unknown as {
    error: { code: string; details: { attempts: { provider: string }[] } }
  }
  t.equal(error.code, 'UPSTREAM_ERROR')
  t.same(
    error.details.attempts.map(({ provider }) => provider),
    ['e0', 'e2', 'e1'],
  )
})

test('an entry whose provider asked to be left alone is not asked', async (t) => {
  const refusing = await serveWords(t, REFUSING)
  const cooling = await serveWords(t)
  const entries = [wordsEntry(refusing.origin, 'first'), wordsEntry(cooling.origin, 'second')]
  const rig = await openLive(t, entries)
  const limited = {
    kind: 'rate',
    status: 429,
    reason: 'x',
    retryAfterMs: 60_000,
    providerMessage: null,
  } as const
  rig.services.health.failed(entries[1]!, limited, performance.now())
  const caller = rig.connect()
  await caller.message('error')
  t.same(cooling.heard, [])
})
