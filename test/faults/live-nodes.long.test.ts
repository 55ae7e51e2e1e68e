import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { WebSocket } from 'ws'
import { Dice } from '../support/dice.ts'
import { type Fleet, startFleet } from '../support/fleet.ts'
import { type LiveAudio, liveAudio } from '../support/live-audio.ts'
import { LiveClient } from '../support/live-rig.ts'
import { withoutServers } from '../support/servers.ts'
import { NO_TERMS } from '../support/state-under-test.ts'
import { waitUntil } from '../support/wait-until.ts'

/** 3.6 USD an hour: a second is a thousandth of a cent. */
const LIVE = { features: ['word_timestamps'], hints: [], limits: {}, price: { per_hour_usd: 3.6 } }
const SLICE_MICROS = 60_000
const SESSIONS = 4
/** As `RedisPermits` leases them, and some time for a busy machine. */
const LEASE_MS = 15_000 + 5_000
/** A slice is reserved for 120 s, and 60 s of grace. */
const RESERVED_MS = 180_000 + 20_000

const ENTRY = { provider: 'sandbox', model: 'morse-1', live: LIVE }

function startNodes<const Limits extends Readonly<Record<string, number>>>(t: Test, limits: Limits) {
  return startFleet(t, {
    nodes: 2,
    redis: {},
    env: { LARKWAY_DRAIN_SECONDS: '1' },
    providers: { sandbox: { kind: 'sandbox', access: 'platform' } },
    workspaces: { acme: { entries: [ENTRY], terms: { credits_usd: 10, grant_id: 'first' } } },
    config: { limits },
  })
}

function connect(t: Test, fleet: Pick<Fleet, 'node' | 'authorizationOf'>, at: number): LiveClient {
  const { url } = fleet.node(at)
  const headers = { authorization: fleet.authorizationOf('acme') }
  const address = `${url.replace('http', 'ws')}/v1/transcription/stream?sample_rate=16000&interim=false`
  return new LiveClient(t, new WebSocket(address, 'larkway.v1', { headers }))
}

t.test(
  'a killed node is charged what it held, once, and its sessions count no more',
  { skip: withoutServers, timeout: 400_000 },
  async (t) => {
    const fleet = await startNodes(t, { live_max_sessions_per_key: SESSIONS })
    const state = await fleet.openState()
    const account = () => state.accounts.show('acme', NO_TERMS)
    const open = Array.from({ length: SESSIONS }, () => connect(t, fleet, 0))
    await Promise.all(open.map((caller) => caller.message('ready')))
    for (const caller of open) await caller.speak(liveAudio('ee').pcm.subarray(0, 16_000), 10)

    const tooMany = connect(t, fleet, 1)
    t.match(await tooMany.message('error'), { error: { code: 'RATE_LIMITED' } }, 'all nodes count')
    t.equal(await tooMany.closed, 4429)

    const killedMs = performance.now()
    await fleet.node(0).signal('SIGKILL')
    await Promise.all(open.map((caller) => caller.closed))
    const isAdmitted = async () => {
      const caller = connect(t, fleet, 1)
      const first = await Promise.race([
        caller.message('ready').catch(() => null),
        caller.message('error').catch(() => null),
      ])
      caller.socket.close()
      await caller.closed
      return first?.type === 'ready'
    }
    t.ok(await waitUntil(isAdmitted, LEASE_MS))
    const freeMs = performance.now() - killedMs
    t.ok(freeMs < LEASE_MS, `its permits were free after ${Math.round(freeMs)} ms`)

    const isOver = async () => (await account()).reservedMicros === 0
    t.ok(await waitUntil(isOver, RESERVED_MS - (performance.now() - killedMs)))
    const view = await account()
    t.equal(view.creditsMicros, 10_000_000 - SESSIONS * SLICE_MICROS, 'the slice under way of each, once')
    t.equal(view.expired.micros, SESSIONS * SLICE_MICROS, 'flagged; some were reserved together')
  },
)

/** The samples after which each word has ended, in the middle of the gap behind it. */
function gapsOf({ words, pcm }: LiveAudio): number[] {
  return words.map(({ end }, index) => {
    const next = words[index + 1]?.start ?? pcm.length / 32_000
    return Math.round(((end + next) / 2) * 16_000) * 2
  })
}

/** Speaks in real time; when the node goes away, at the end of the word it goes on at the other one. */
async function speakAcross(t: Test, fleet: Fleet, text: string, onReady: () => void) {
  const audio = liveAudio(text, { speed: 2 })
  const gaps = gapsOf(audio)
  const first = connect(t, fleet, 0)
  await first.message('ready')
  onReady()
  let from = 0
  for (const gap of gaps) {
    if (first.of('going_away').length > 0) break
    await first.speak(audio.pcm.subarray(from, gap))
    from = gap
  }
  const away = first.of('going_away')[0]
  first.send({ type: 'end' })
  const rest = connect(t, fleet, 1)
  await rest.message('ready')
  if (from < audio.pcm.length) await rest.speak(audio.pcm.subarray(from))
  rest.send({ type: 'end' })
  const [one, other] = await Promise.all([first.message('done'), rest.message('done')])
  const codes = await Promise.all([first.closed, rest.closed])
  const heard = [one.content, other.content].filter((content) => content !== '').join(' ')
  return { away, heard, codes, wasMoved: from < audio.pcm.length && other.content !== '' }
}

const LETTERS = 'abdefgiklmnoprstuvw'

t.test(
  'a node that is stopped tells its sessions, and those that go on at another one lose no word',
  { skip: withoutServers, timeout: 240_000 },
  async (t) => {
    const fleet = await startNodes(t, {})
    const dice = new Dice(7)
    const texts = Array.from({ length: 12 }, () =>
      Array.from({ length: 8 }, () =>
        Array.from({ length: 1 + dice.below(3) }, () => LETTERS[dice.below(LETTERS.length)]).join(''),
      ).join(' '),
    )
    let ready = 0
    const speaking = texts.map((text) => speakAcross(t, fleet, text, () => (ready += 1)))
    t.ok(await waitUntil(() => ready === texts.length))
    await sleep(1_500 + dice.below(1_500))
    const stopped = fleet.node(0).signal('SIGTERM')
    const ended = await Promise.all(speaking)
    for (const [index, { away, heard, codes }] of ended.entries()) {
      t.match(away, { reason: 'drain', seconds: 30 })
      t.equal(heard, texts[index])
      t.same(codes, [1000, 1000])
    }
    const moved = ended.filter(({ wasMoved }) => wasMoved).length
    t.equal(moved, texts.length, 'all of them went on at the other node')
    t.equal(await stopped, 0)
  },
)
