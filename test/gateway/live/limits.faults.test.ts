import { setTimeout as sleep } from 'node:timers/promises'
import { test } from 'tap'
import { facts } from '../../support/catalog.ts'
import { LIVE_FACTS, type LiveClient, openLive, wordsEntry } from '../../support/live-rig.ts'
import { RATE, serveWords, wordsAudio, wordsText } from '../../support/live-words.ts'

async function codeOf(caller: LiveClient): Promise<unknown> {
  const { error } = (await caller.message('error')) as unknown as { error: { code: string } }
  return [error.code, await caller.closed]
}

test('a session without audio ends, unless its caller says that it is there', async (t) => {
  const provider = await serveWords(t)
  const rig = await openLive(t, [wordsEntry(provider.origin, 'first')], { limits: { live_idle_seconds: 2 } })
  const silent = rig.connect()
  const present = rig.connect()
  await present.message('ready')
  const alive = setInterval(() => present.send({ type: 'keepalive' }), 500)
  t.same(await codeOf(silent), ['REQUEST_TIMEOUT', 4408])
  clearInterval(alive)
  present.send({ type: 'end' })
  await present.message('done')
  t.equal(await present.closed, 1000)
})

test('a session that has lasted its time is announced to end, and transcribed to its last sample', async (t) => {
  const provider = await serveWords(t)
  const limits = { live_max_session_seconds: 4 }
  const rig = await openLive(t, [wordsEntry(provider.origin, 'first')], { limits })
  const caller = rig.connect()
  await caller.message('ready')
  await caller.speak(wordsAudio(0, 5))
  t.match(await caller.message('going_away'), { reason: 'session_limit' })
  const done = await caller.message('done')
  t.equal(done.content, wordsText(5))
  t.equal(await caller.closed, 1000)
})

test('a key has no more sessions at once than it may have', async (t) => {
  const provider = await serveWords(t)
  const limits = { live_max_sessions_per_key: 2 }
  const rig = await openLive(t, [wordsEntry(provider.origin, 'first')], { limits })
  const [first, second] = [rig.connect(), rig.connect()]
  await Promise.all([first.message('ready'), second.message('ready')])
  const third = rig.connect()
  await third.closed
  t.match(third.refusal, { error: { code: 'RATE_LIMITED', details: { limit: 'live_max_sessions_per_key' } } })
  first.send({ type: 'end' })
  await first.closed
  const fourth = rig.connect()
  await fourth.message('ready')
})

test('sessions of all nodes count, and who is one too many is told once it is connected', async (t) => {
  const provider = await serveWords(t)
  const limits = { live_max_sessions_per_key: 1 }
  const rig = await openLive(t, [wordsEntry(provider.origin, 'first')], { limits })
  const { permits } = rig.services.state
  // As for a node that has none of the sessions itself: it does not know before it asks.
  permits.held = () => 0
  const first = rig.connect()
  await first.message('ready')
  t.same(await codeOf(rig.connect()), ['RATE_LIMITED', 4429])
  first.send({ type: 'end' })
  await first.closed
  await rig.connect().message('ready')
})

test('a credential with as many sessions as it may have is passed over before it is connected', async (t) => {
  const [first, second] = [await serveWords(t), await serveWords(t)]
  const limited = facts({ live: { ...LIVE_FACTS, limits: { max_sessions: 1 } } })
  const entries = [
    wordsEntry(first.origin, 'first', { facts: limited }),
    wordsEntry(second.origin, 'second', { facts: limited }),
  ]
  const rig = await openLive(t, entries)
  const held = (name: string) => rig.services.state.permits.held(`live:account:${name}`)
  const speak = async () => {
    const caller = rig.connect()
    await caller.message('ready')
    await caller.speak(wordsAudio(0, 2), 10)
    return caller
  }
  const one = await speak()
  await one.message('final')
  const other = await speak()
  t.match(await other.message('switched'), { from: { provider: 'first' }, to: { provider: 'second' } })
  t.equal(first.heard.length, 1, 'it was not asked again')
  t.same(await codeOf(await speak()), ['RATE_LIMITED', 4429])
  t.same([held('first'), held('second')], [1, 1])
  one.send({ type: 'end' })
  await one.closed
  t.equal(held('first'), 0)
  const next = await speak()
  next.send({ type: 'end' })
  t.match(await next.message('done'), { provider: 'first', content: wordsText(2) })
})

test('audio that comes faster than it can be sent on ends the session, and loses nothing silently', async (t) => {
  const provider = await serveWords(t)
  const limits = { live_buffer_seconds: 2 }
  const rig = await openLive(t, [wordsEntry(provider.origin, 'first')], { limits })
  const caller = rig.connect()
  await caller.message('ready')
  await caller.speak(wordsAudio(0, 20), 50)
  t.same(await codeOf(caller), ['AUDIO_TOO_LARGE', 4413])
})

test('the fields may come with the first message, and what was sent is settled on demand', async (t) => {
  const provider = await serveWords(t)
  const rig = await openLive(t, [wordsEntry(provider.origin, 'first')])
  const caller = rig.connect('')
  await new Promise((resolve) => caller.socket.once('open', resolve))
  const audio = { sample_rate: RATE }
  caller.send({ type: 'start', timestamps: 'word', audio, shoes: 'red', skip_silence: true })
  const ready = await caller.message('ready')
  t.match(ready.warnings, [/shoes/, /^skip_silence: left out/])
  await caller.speak(wordsAudio(0, 3))
  caller.send({ type: 'finalize', id: 'here' })
  const finalized = await caller.message('finalized')
  t.equal(finalized.id, 'here')
  t.ok(Number(finalized.settled_seconds) > 1.1, 'all of it is settled')
  t.equal(caller.text, wordsText(3))
  caller.send({ type: 'end' })
  await caller.message('done')
})

test('a node that stops tells its sessions, and ends them with all that was said', async (t) => {
  const provider = await serveWords(t)
  const rig = await openLive(t, [wordsEntry(provider.origin, 'first')])
  const [patient, prompt] = [rig.connect(), rig.connect()]
  await Promise.all([patient.message('ready'), prompt.message('ready')])
  const spoken = Promise.all([patient.speak(wordsAudio(0, 4)), prompt.speak(wordsAudio(0, 4))])
  await sleep(200)
  rig.live.goAway(3)
  t.match(await patient.message('going_away'), { reason: 'drain', seconds: 3 })
  await spoken
  prompt.send({ type: 'end' })
  for (const caller of [prompt, patient]) {
    const done = await caller.message('done')
    t.equal(done.content, wordsText(4))
    t.equal(await caller.closed, 1000)
  }
  const late = rig.connect()
  await late.closed
  t.match(late.refusal, { error: { code: 'OVERLOADED' } })
})

test('where there is no memory for audio, sessions say what they could not send again', async (t) => {
  const dying = await serveWords(t, { death: () => ({ how: 'reset', afterSeconds: 3 }) })
  const sound = await serveWords(t)
  const entries = [wordsEntry(dying.origin, 'first'), wordsEntry(sound.origin, 'second')]
  // One block: half a second of this audio.
  const rig = await openLive(t, entries, { ringBytes: 16 * 1024 })
  const caller = rig.connect(`sample_rate=${RATE}&interim=false`)
  await caller.message('ready')
  // One word of five seconds, of which nothing is settled before its end.
  const tone = Buffer.alloc(5 * RATE * 2)
  for (let at = 0; at < tone.length; at += 2) tone.writeInt16LE(1_000, at)
  await caller.speak(Buffer.concat([tone, wordsAudio(1, 3)]))
  caller.send({ type: 'end' })
  const done = await caller.message('done')
  const [switched] = caller.of('switched')
  t.ok(Number(switched?.lost_seconds) > 2, `${String(switched?.lost_seconds)} s are lost, and said to be`)
  t.equal(done.content, 'w0 w1 w2')
})
