import { setTimeout as sleep } from 'node:timers/promises'
import { type Test, test } from 'tap'
import { facts, principal } from '../support/catalog.ts'
import { LIVE_FACTS, type LiveClient, openLive, wordsEntry } from '../support/live-rig.ts'
import {
  ANSWERS_WITHIN_MS,
  type Death,
  type DeathTold,
  RATE,
  SPOKEN_SECONDS,
  serveWordsApart,
  WORD_SECONDS,
  wordsAudio,
  wordsText,
} from '../support/live-words.ts'

const WORDS = 20
const SECONDS = WORDS * WORD_SECONDS
const PIECE_SECONDS = 0.2
/** Sessions that begin in each step of 40 ms. */
const BEGUN_AT_ONCE = 10

/** Sends the audio of many sessions at real time, by one timer for all. @returns when each piece of each was sent */
async function speakAll(clients: readonly LiveClient[], audio: Buffer): Promise<readonly number[][]> {
  const piece = PIECE_SECONDS * RATE * 2
  const sent = clients.map(() => 0)
  const sentMs: number[][] = clients.map(() => [])
  const begun = clients.map((_, index) => performance.now() + Math.floor(index / BEGUN_AT_ONCE) * 40)
  for (;;) {
    const nowMs = performance.now()
    let left = 0
    for (const [index, client] of clients.entries()) {
      while (sent[index]! < audio.length) {
        if (nowMs < begun[index]! + (sent[index]! / (RATE * 2)) * 1000) break
        client.send(audio.subarray(sent[index], sent[index]! + piece))
        sentMs[index]!.push(performance.now())
        sent[index]! += piece
        if (sent[index]! >= audio.length) client.send({ type: 'end' })
      }
      if (sent[index]! < audio.length) left += 1
    }
    if (left === 0) return sentMs
    await sleep(20)
  }
}

/** A new connection may be sent so much at once, and the rest of what is replayed to it so fast. */
const BURST_SECONDS = 1
const SPEED = 1.25

/** When the piece was sent that ends a word: its provider cannot know before. */
const spokenMs = (end: number, sentMs: readonly number[]) =>
  sentMs[Math.floor(end / PIECE_SECONDS + 1e-6)] ?? sentMs.at(-1)!

/** Milliseconds that each word took to come before the death, as long as nothing was wrong. */
function wordsMs({ messages, arrivedMs }: LiveClient, { atMs }: DeathTold, sentMs: readonly number[]) {
  return messages.flatMap(({ type, segment }, index) => {
    const cameMs = arrivedMs[index]!
    if (type !== 'final' || cameMs > atMs - performance.timeOrigin) return []
    return cameMs - spokenMs((segment as { end: number }).end, sentMs)
  })
}

/**
 * Milliseconds from a provider's death to the first word after it, beyond those that it has to take: until the death
 * shows, until what is replayed is sent at the pace that providers allow, and until the word is spoken.
 */
function gapMs({ messages, arrivedMs }: LiveClient, { how, atMs }: DeathTold, sentMs: readonly number[]) {
  const at = messages.findIndex(({ type }) => type === 'switched')
  const word = messages.findIndex(({ type }, index) => index > at && type === 'final')
  if (at < 0 || word < 0) return []
  const { end } = messages[word]!.segment as { end: number }
  const replayed = end - Number(messages[at]!.at_seconds)
  const replayMs = (Math.max(0, replayed - BURST_SECONDS) / SPEED) * 1000
  const shownMs = atMs - performance.timeOrigin + (how === 'silence' ? ANSWERS_WITHIN_MS : 0)
  return arrivedMs[word]! - Math.max(shownMs + replayMs, spokenMs(end, sentMs))
}

const partOf = (sorted: readonly number[], part: number) =>
  Math.round(sorted[Math.floor(part * sorted.length)]!)

/** Sessions whose provider dies at a random instant; another one refuses every third of those that come. */
async function loseNoWord(t: Test, sessions: number) {
  const deaths = new Map<string, DeathTold>()
  const dying = await serveWordsApart(
    t,
    { seed: 17, hows: HOWS, chance: 1, fromSeconds: 0.3, toSeconds: SECONDS - 1 },
    (told) => deaths.set(told.name, told),
  )
  // The second one does not accept every session.
  const refusing = { seed: 18, hows: ['refuse'], chance: 0.3, fromSeconds: 0, toSeconds: 0 } as const
  const picky = await serveWordsApart(t, refusing)
  const sound = await serveWordsApart(t, null)
  const { key } = principal()
  const named = facts({ live: { ...LIVE_FACTS, hints: ['prompt'] } })
  const rig = await openLive(
    t,
    [wordsEntry(dying, 'first', { facts: named }), wordsEntry(picky, 'second'), wordsEntry(sound, 'third')],
    {
      ringBytes: 512 * 1024 * 1024,
      caller: { key: { ...key, rateLimit: { requestsPerMinute: 100_000, burst: 100_000 } } },
    },
  )
  // So that no breaker opens: what is asked here is what becomes of each session.
  rig.services.health.failed = () => {}
  const clients: LiveClient[] = []
  for (let index = 0; index < sessions; index += 1) {
    clients.push(rig.connect(`sample_rate=${RATE}&timestamps=word&interim=false&prompt=${index}`))
    if (index % 50 === 49) await Promise.all(clients.slice(-50).map((client) => client.message('ready')))
  }
  t.equal(rig.live.count, sessions)
  const sentMs = await speakAll(clients, wordsAudio(0, WORDS))
  await checkWords(t, clients)
  t.equal(rig.live.count, 0)
  t.equal(rig.live.heldBytes, 0)

  const told = [...deaths.values()].map((death) => {
    const index = Number(death.name)
    return { death, client: clients[index]!, sentMs: sentMs[index]! }
  })
  t.ok(told.length >= sessions * 0.9, `${told.length} deaths`)
  const usual = told.flatMap((one) => wordsMs(one.client, one.death, one.sentMs)).sort((a, b) => a - b)
  const gaps = HOWS.map((how) => {
    const own = told.filter(({ death }) => death.how === how)
    const sorted = own.flatMap((one) => gapMs(one.client, one.death, one.sentMs)).sort((a, b) => a - b)
    return { how, count: sorted.length, medianMs: partOf(sorted, 0.5), p99Ms: partOf(sorted, 0.99) }
  })
  t.comment(JSON.stringify({ usualMs: [partOf(usual, 0.5), partOf(usual, 0.99)], gaps }))
  return { usualMs: partOf(usual, 0.99), gaps }
}

const HOWS: readonly Death[] = ['reset', 'close', 'silence']

async function checkWords(t: Test, clients: readonly LiveClient[]): Promise<void> {
  const wrong: unknown[] = []
  const late: number[] = []
  let lost = 0
  for (const [index, client] of clients.entries()) {
    const done = await client.message('done').catch((error: Error) => error)
    if (done instanceof Error || client.text !== wordsText(WORDS) || done.content !== wordsText(WORDS)) {
      wrong.push([index, done instanceof Error ? done.message : client.text])
      continue
    }
    for (const [word, { start, end }] of (done.words as { start: number; end: number }[]).entries())
      late.push(Math.abs(start - word * WORD_SECONDS), Math.abs(end - word * WORD_SECONDS - SPOKEN_SECONDS))
    for (const switched of client.of('switched')) lost += Number(switched.lost_seconds)
  }
  t.same(wrong, [], 'every word once, in order')
  t.equal(late.length, clients.length * WORDS * 2)
  t.ok(Math.max(...late) < 0.05, `times are ${Math.max(...late)} s off at most`)
  t.equal(lost, 0, 'nothing was out of the reach of the replay')
  const switches = clients.reduce((sum, client) => sum + client.of('switched').length, 0)
  t.ok(switches >= clients.length * 0.9, `${switches} switches`)
}

/**
 * Callers, node and providers share this machine. A gap has up to two handshakes, of which one may be refused, and a
 * word: as many trips as four words, each of which takes what words take in this very run.
 */
function checkGaps(t: Test, { usualMs, gaps }: Awaited<ReturnType<typeof loseNoWord>>): void {
  for (const { how, count, p99Ms } of gaps) {
    t.ok(count > 10, `${count} deaths by ${how}`)
    t.ok(p99Ms <= 1_000 + 4 * usualMs, `${how}: ${p99Ms} ms beyond the replay; a word takes ${usualMs} ms`)
  }
}

test('the first word after a death comes as soon as its replay allows', async (t) => {
  checkGaps(t, await loseNoWord(t, 100))
})

test('a thousand sessions lose no word when their provider dies at any moment', async (t) => {
  checkGaps(t, await loseNoWord(t, 1_000))
})
