import { setTimeout as sleep } from 'node:timers/promises'
import { test } from 'tap'
import { principal } from '../support/catalog.ts'
import { type LiveClient, openLive, wordsEntry } from '../support/live-rig.ts'
import {
  type Death,
  RATE,
  serveWordsApart,
  WORD_SECONDS,
  wordsAudio,
  wordsText,
} from '../support/live-words.ts'

const SESSIONS = 1_000
const WORDS = 20
const SECONDS = WORDS * WORD_SECONDS
const PIECE_SECONDS = 0.2
/** Sessions that begin in each step of 40 ms. */
const BEGUN_AT_ONCE = 10

/** Sends the audio of many sessions at real time, by one timer for all. */
async function speakAll(clients: readonly LiveClient[], audio: Buffer): Promise<void> {
  const piece = PIECE_SECONDS * RATE * 2
  const sent = clients.map(() => 0)
  const begun = clients.map((_, index) => performance.now() + Math.floor(index / BEGUN_AT_ONCE) * 40)
  for (;;) {
    const nowMs = performance.now()
    let left = 0
    for (const [index, client] of clients.entries()) {
      while (sent[index]! < audio.length) {
        if (nowMs < begun[index]! + (sent[index]! / (RATE * 2)) * 1000) break
        client.send(audio.subarray(sent[index], sent[index]! + piece))
        sent[index]! += piece
        if (sent[index]! >= audio.length) client.send({ type: 'end' })
      }
      if (sent[index]! < audio.length) left += 1
    }
    if (left === 0) return
    await sleep(20)
  }
}

test('a thousand sessions lose no word when their provider dies at any moment', async (t) => {
  const hows: readonly Death[] = ['reset', 'close', 'silence']
  const dying = await serveWordsApart(t, {
    seed: 17,
    hows,
    chance: 1,
    fromSeconds: 0.3,
    toSeconds: SECONDS - 1,
  })
  // The second one does not accept every session.
  const picky = await serveWordsApart(t, {
    seed: 18,
    hows: ['refuse'],
    chance: 0.3,
    fromSeconds: 0,
    toSeconds: 0,
  })
  const sound = await serveWordsApart(t, null)
  const { key } = principal()
  const rig = await openLive(
    t,
    [wordsEntry(dying, 'first'), wordsEntry(picky, 'second'), wordsEntry(sound, 'third')],
    {
      ringBytes: 512 * 1024 * 1024,
      caller: { key: { ...key, rateLimit: { requestsPerMinute: 100_000, burst: 100_000 } } },
    },
  )
  // So that no breaker opens: what is asked here is what becomes of each session.
  rig.services.health.failed = () => {}
  const clients: LiveClient[] = []
  for (let index = 0; index < SESSIONS; index += 1) {
    clients.push(rig.connect(`sample_rate=${RATE}&timestamps=word&interim=false`))
    if (index % 50 === 49) await Promise.all(clients.slice(-50).map((client) => client.message('ready')))
  }
  t.equal(rig.live.count, SESSIONS)
  await speakAll(clients, wordsAudio(0, WORDS))
  const wrong: unknown[] = []
  const late: number[] = []
  let lost = 0
  for (const [index, client] of clients.entries()) {
    const done = await client.message('done').catch((error: Error) => error)
    if (done instanceof Error || client.text !== wordsText(WORDS) || done.content !== wordsText(WORDS)) {
      wrong.push([index, done instanceof Error ? done.message : client.text])
      continue
    }
    for (const [word, { start }] of (done.words as { start: number }[]).entries())
      late.push(Math.abs(start - word * WORD_SECONDS))
    for (const switched of client.of('switched')) lost += Number(switched.lost_seconds)
  }
  t.same(wrong, [], 'every word once, in order')
  t.ok(Math.max(...late) < 0.05, `times are ${Math.max(...late)} s off at most`)
  t.equal(lost, 0, 'nothing was out of the reach of the replay')
  const switches = clients.reduce((sum, client) => sum + client.of('switched').length, 0)
  t.ok(switches >= SESSIONS * 0.9, `${switches} switches`)
  t.equal(rig.live.count, 0)
  t.equal(rig.live.heldBytes, 0)
})
