import { setTimeout as sleep } from 'node:timers/promises'
import { type Test, test } from 'tap'
import type { AccountView } from '../../../src/contracts/ledger.ts'
import type { AdmittedContext } from '../../../src/gateway/call/context/call-context.ts'
import { configuredProvider, entry, facts, principal } from '../../support/catalog.ts'
import { Dice } from '../../support/dice.ts'
import { LIVE_FACTS, type LiveRig, openLive, wordsEntry, wordsSession } from '../../support/live-rig.ts'
import { serveWords, serveWordsApart, wordsAudio, wordsText } from '../../support/live-words.ts'

/** As in `LIVE_FACTS`: 3.6 USD an hour. */
const MICROS_PER_SECOND = 1_000
const SLICE_MICROS = 60 * MICROS_PER_SECOND
/** A provider that takes audio as fast as it comes, so that minutes of it fit a test. */
const HASTY = facts({ live: { ...LIVE_FACTS, replay_speed: 100 } })

async function rigWith(t: Test, micros: number, entries: Parameters<typeof openLive>[1]) {
  const { workspace, key } = principal()
  const terms = { grant: { id: 'initial', micros }, trial: null, budgetMicros: null }
  const rig = await openLive(t, entries, {
    ringBytes: 512 * 1024 * 1024,
    caller: {
      workspace: { ...workspace, terms },
      key: { ...key, rateLimit: { requestsPerMinute: 100_000, burst: 100_000 } },
    },
  })
  /** The account when nothing is reserved any more. */
  const settled = async (): Promise<AccountView> => {
    for (;;) {
      await rig.services.moneyLeases.giveBack(workspace.id)
      const view = await rig.services.state.accounts.show(workspace.id, terms)
      if (view.reservedMicros === 0 && rig.live.count === 0) return view
      await sleep(20)
    }
  }
  return { ...rig, settled }
}

test('credits that run out are announced, and the session ends when the funded audio is used', async (t) => {
  const provider = await serveWords(t)
  const rig = await rigWith(t, 1.7 * SLICE_MICROS, [wordsEntry(provider.origin, 'first', { facts: HASTY })])
  const caller = rig.connect()
  await caller.message('ready')
  await caller.speak(wordsAudio(0, 225), 20)
  const { error } = (await caller.message('error')) as unknown as { error: { code: string } }
  t.equal(error.code, 'INSUFFICIENT_CREDITS')
  t.equal(await caller.closed, 4402)
  const [away] = caller.of('going_away')
  t.match(away, { reason: 'credits' })
  // Audio that comes at 20 times its speed may be used up by then.
  t.ok(Number(away?.seconds) >= 0, `${String(away?.seconds)} s are left`)
  const { creditsMicros } = await rig.settled()
  const spent = 1.7 * SLICE_MICROS - creditsMicros
  t.equal(spent, SLICE_MICROS, 'the minute that was funded, and no more')
})

test('a session without credits for a minute is refused', async (t) => {
  const provider = await serveWords(t)
  const rig = await rigWith(t, SLICE_MICROS - 1, [wordsEntry(provider.origin, 'first')])
  const caller = rig.connect()
  const { error } = (await caller.message('error')) as unknown as { error: { code: string } }
  t.equal(error.code, 'INSUFFICIENT_CREDITS')
  t.equal(caller.of('ready').length, 0)
  t.equal((await rig.settled()).creditsMicros, SLICE_MICROS - 1)
})

test('slices follow one another, and add up to what was used', async (t) => {
  const provider = await serveWords(t)
  const credits = 100 * SLICE_MICROS
  const rig = await rigWith(t, credits, [wordsEntry(provider.origin, 'first', { facts: HASTY })])
  const caller = rig.connect('sample_rate=16000&interim=false')
  await caller.message('ready')
  await caller.speak(wordsAudio(0, 300), 25)
  caller.send({ type: 'end' })
  const done = await caller.message('done')
  t.match(done, { cost_usd: 0.12, usage: { audio_seconds: 120, billable_audio_seconds: 120 } })
  t.equal(credits - (await rig.settled()).creditsMicros, 120 * MICROS_PER_SECOND)
})

test('seconds that are charged in steps are rounded up once', async (t) => {
  const provider = await serveWords(t)
  const price = { ...LIVE_FACTS.price, billing_increment_seconds: 50, minimum_seconds: 70 }
  const stepped = facts({ live: { ...LIVE_FACTS, price, replay_speed: 100 } })
  const rig = await rigWith(t, 100 * SLICE_MICROS, [wordsEntry(provider.origin, 'first', { facts: stepped })])
  const caller = rig.connect('sample_rate=16000&interim=false')
  await caller.message('ready')
  await caller.speak(wordsAudio(0, 300), 25)
  caller.send({ type: 'end' })
  const done = await caller.message('done')
  t.match(done, { cost_usd: 0.15, usage: { audio_seconds: 120, billable_audio_seconds: 150 } })
  t.equal(100 * SLICE_MICROS - (await rig.settled()).creditsMicros, 150 * MICROS_PER_SECOND)
})

/** Keeps the contexts of all sessions, for what they cost. */
function watchSessions(rig: LiveRig): () => readonly AdmittedContext[] {
  const seen = new Set<AdmittedContext>()
  const open = rig.live.open.bind(rig.live)
  rig.live.open = (request) => {
    seen.add(request.context)
    return open(request)
  }
  return () => [...seen]
}

test('sessions that end in every way on small credits cost what they say, to the micro-USD', async (t) => {
  const dice = new Dice(5)
  const dying = await serveWordsApart(t, {
    seed: 6,
    hows: ['reset', 'close', 'refuse'],
    chance: 0.7,
    fromSeconds: 0.2,
    toSeconds: 2,
  })
  const sound = await serveWordsApart(t, null)
  const credits = 40 * SLICE_MICROS
  const rig = await rigWith(t, credits, [wordsEntry(dying, 'first'), wordsEntry(sound, 'second')])
  rig.services.health.failed = () => {}
  const contexts = watchSessions(rig)
  const refusals = new Set<unknown>()
  const call = async () => {
    const caller = rig.connect('sample_rate=16000&interim=false')
    const ready = await caller.message('ready').catch(() => null)
    if (ready === null) return refusals.add((caller.of('error')[0]?.error as { code: string })?.code)
    await caller.speak(wordsAudio(0, 1 + dice.below(6)))
    if (dice.chance(0.4)) caller.socket.terminate()
    else caller.send({ type: 'end' })
    await caller.closed
  }
  const callers = Array.from({ length: 70 }, async () => {
    for (let round = 0; round < 3; round += 1) await call()
  })
  await Promise.all(callers)
  const { creditsMicros, overageMicros, expired } = await rig.settled()
  const costs = contexts().map(({ money }) => Math.round((money.costUsd ?? Number.NaN) * 1_000_000))
  t.equal(
    credits - creditsMicros,
    costs.reduce((sum, cost) => sum + cost, 0),
    `${costs.length} sessions`,
  )
  t.ok(costs.filter((cost) => cost > 0).length > 50, 'most of them cost something')
  t.same([...refusals], ['INSUFFICIENT_CREDITS'], 'some found no credits left')
  t.equal(overageMicros, 0)
  t.equal(expired.count, 0)
})

for (const access of ['byok', 'platform'] as const)
  test(`an entry whose slice covers not all others is followed by any of them, a ${access} one too`, async (t) => {
    // Once it has died it refuses: only the other can go on.
    const death = (count: number) =>
      count === 0
        ? ({ how: 'reset', afterSeconds: 1.25 } as const)
        : ({ how: 'refuse', afterSeconds: 0 } as const)
    const [dying, sound] = [await serveWords(t, { death }), await serveWords(t)]
    const entryOf = (name: string, baseUrl: string, of: 'byok' | 'platform') => {
      const workspace = of === 'byok' ? 'acme' : null
      const provider = configuredProvider({ name, kind: 'words', baseUrl, access: of, workspace })
      return entry({ provider, facts: facts({ live: LIVE_FACTS }) })
    }
    const entries = [entryOf('first', dying.origin, 'platform'), entryOf('second', sound.origin, access)]
    const rig = await rigWith(t, 10 * SLICE_MICROS, entries)
    const caller = await wordsSession(rig, 8)
    t.equal(caller.text, wordsText(8))
    t.match(caller.of('switched'), [{ to: { provider: 'second' } }])
    await rig.settled()
  })
