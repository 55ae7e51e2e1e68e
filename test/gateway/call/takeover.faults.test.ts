import t, { type Test } from 'tap'
import type { Entry } from '../../../src/contracts/catalog.ts'
import type { UpstreamProgress } from '../../../src/contracts/jobs.ts'
import { entryKey } from '../../../src/gateway/call/attempt/operation.ts'
import type { Outcome } from '../../../src/gateway/call/attempt/outcome.ts'
import { Interrupted } from '../../../src/gateway/call/facts/call.ts'
import { audio, options } from '../../support/call.ts'
import { configuredProvider } from '../../support/catalog.ts'
import { chatCall, entryAt, gatewayRig, refusalOf, runForJob, upstream } from '../../support/gateway-rig.ts'
import { memoryAudio } from '../../support/memory-audio.ts'
import type { Ordering, OrderUpstream } from '../../support/upstream/orders.ts'
import { ORDERING, startOrderUpstream } from '../../support/upstream/orders.ts'
import { waitUntil } from '../../support/wait-until.ts'

// They mostly wait for the next poll, which they can do together.
t.jobs = 6
t.setTimeout(120_000)

const SECRET = 'key_secret'
const sound = memoryAudio(Buffer.alloc(3200, 7), 'identity')
const HEARD = { audio: audio(sound.audio), options: options() }
const FILMED = { prompt: 'a lark', duration_seconds: null, size: null, seed: null }

function entryOf(protocol: Ordering, { origin }: Pick<OrderUpstream, 'origin'>, over: Partial<Entry> = {}) {
  const provider = configuredProvider({
    name: `${protocol}_${new URL(origin).port}`,
    kind: protocol,
    baseUrl: `${origin}/v1`,
    credential: SECRET,
    // Nothing is set aside for the customer's own providers, so that no state is asked while all of this runs at once.
    access: 'byok',
    workspace: 'acme',
  })
  const model = protocol === 'runway' ? 'gen4.5' : 'model'
  return entryAt(origin, { provider, model, ...over })
}

/** A job that is sent to these entries, claim by claim. */
function jobAt(t: Test, protocol: Ordering, entries: readonly Entry[]) {
  const rig = gatewayRig(t, { entries, reader: sound.reader })
  let claims = 0
  /** @param progress as the last claim left it, through JSON as a store would keep it */
  const claim = (
    progress: UpstreamProgress | null,
    signal?: AbortSignal,
    onNote: (noted: UpstreamProgress | null) => void = () => {},
  ) => {
    const notes: (UpstreamProgress | null)[] = []
    claims += 1
    const job = {
      id: 'tj_of_the_test',
      claim: claims,
      retries: 0,
      deadlineMs: 60_000,
      progress: JSON.parse(JSON.stringify(progress)) as UpstreamProgress | null,
      note(noted: UpstreamProgress | null) {
        notes.push(noted)
        onNote(noted)
      },
    }
    const ended: Promise<Outcome<'transcription'> | Outcome<'video'>> =
      protocol === 'assemblyai'
        ? runForJob(rig.services, rig.request('transcription', HEARD, signal), job)
        : runForJob(rig.services, rig.request('video', FILMED, signal), job)
    return { notes, ended: ended.then(released) }
  }
  /** A claim that is interrupted as soon as there is something to go on with. @returns that */
  const interrupted = async (progress: UpstreamProgress | null = null): Promise<UpstreamProgress> => {
    const leaving = new AbortController()
    const leave = () => leaving.abort(new Interrupted())
    const { notes, ended } = claim(progress, leaving.signal, leave)
    if (progress !== null) setTimeout(leave, 100)
    await t.rejects(ended, Interrupted)
    const last = notes.at(-1) ?? progress
    if (last === null) throw new Error('there is nothing to go on with')
    return last
  }
  return { rig, claim, interrupted }
}

for (const protocol of ORDERING) {
  t.test(`${protocol}: what was ordered is asked after, not ordered again`, { buffered: true }, async (t) => {
    const [one, other] = [await startOrderUpstream(t, protocol), await startOrderUpstream(t, protocol)]
    other.stands = 'done'
    const whole = jobAt(t, protocol, [entryOf(protocol, other)]).claim(null).ended
    whole.catch(() => {}) // looked at below

    const { rig, claim, interrupted } = jobAt(t, protocol, [entryOf(protocol, one)])
    const progress = await interrupted()
    t.notMatch(JSON.stringify(progress), SECRET)
    t.equal(one.count('order'), 1)
    t.equal(one.count('look'), 0)
    const again = await interrupted(progress)
    t.equal(again.entry, progress.entry)

    one.stands = 'done'
    const before = one.acts.length
    const { ended, notes } = claim(again)
    const result = await ended
    t.same(one.acts.slice(before), ['look'])
    t.same(normal(result, one), normal(await whole, other), 'as if nobody had died')
    t.notOk(notes.includes(null), 'a worker that dies now can have it again')
    t.same(await claim(notes.at(-1) ?? again).ended, result)
    t.equal(one.count('order'), 1)
    t.equal(one.count('upload'), protocol === 'assemblyai' ? 1 : 0)
    t.equal(one.count('stop'), 0)
    t.notOk(one.acts.includes('?'))
    t.equal(rig.services.budget.used, 0)
  })

  t.test(`${protocol}: a job that is cancelled is stopped at its provider`, { buffered: true }, async (t) => {
    const one = await startOrderUpstream(t, protocol)
    const { claim, interrupted } = jobAt(t, protocol, [entryOf(protocol, one)])
    const cancelling = new AbortController()
    const first = claim(null, cancelling.signal, () => cancelling.abort(new Error('cancelled')))
    await t.rejects(first.ended, { message: 'cancelled' })
    t.ok(await waitUntil(() => one.count('stop') === 1), 'by the claim that ordered it')

    const progress = await interrupted()
    const late = new AbortController()
    const second = claim(progress, late.signal)
    t.ok(await waitUntil(() => one.count('look') > 0))
    late.abort(new Error('cancelled'))
    await t.rejects(second.ended, { message: 'cancelled' })
    t.ok(await waitUntil(() => one.count('stop') === 2), 'and by one that has taken it over')
    t.notOk(second.notes.includes(null))
  })

  t.test(
    `${protocol}: an order under way is waited for, so that the next claim knows of it`,
    { buffered: true },
    async (t) => {
      const one = await startOrderUpstream(t, protocol)
      const { claim } = jobAt(t, protocol, [entryOf(protocol, one)])
      let taken = () => {}
      one.beforeTaken = () => new Promise<void>((resolve) => (taken = resolve))
      const leaving = new AbortController()
      const { notes, ended } = claim(null, leaving.signal)
      t.ok(await waitUntil(() => one.count('order') === 1))
      leaving.abort(new Interrupted())
      setTimeout(() => taken(), 300)
      await t.rejects(ended, Interrupted)
      t.match(notes, [{ entry: /^\S+$/ }])
      one.stands = 'done'
      one.beforeTaken = async () => {}
      await claim(notes[0]!).ended
      t.equal(one.count('order'), 1)
      t.equal(one.count('stop'), 0)
    },
  )
}

function released({ result, release }: Outcome<'transcription'> | Outcome<'video'>) {
  release()
  return result
}

/** A result without what tells its upstream from another. */
function normal(result: unknown, { origin }: OrderUpstream): unknown {
  return JSON.parse(JSON.stringify(result).replaceAll(origin, ''))
}

t.test(
  'an order whose answer does not come is not waited for any longer than some seconds',
  { buffered: true },
  async (t) => {
    const one = await startOrderUpstream(t, 'runway')
    one.beforeTaken = () => new Promise(() => {})
    const { claim } = jobAt(t, 'runway', [entryOf('runway', one)])
    const leaving = new AbortController()
    const { notes, ended } = claim(null, leaving.signal)
    t.ok(await waitUntil(() => one.count('order') === 1))
    const startMs = performance.now()
    leaving.abort(new Interrupted())
    await t.rejects(ended, Interrupted)
    const waitedMs = performance.now() - startMs
    t.ok(waitedMs > 4_900 && waitedMs < 20_000, `${waitedMs} ms`)
    t.same(notes, [])

    const cancelled = new AbortController()
    const other = claim(null, cancelled.signal)
    t.ok(await waitUntil(() => one.count('order') === 2))
    const cancelledMs = performance.now()
    cancelled.abort(new Error('cancelled'))
    await t.rejects(other.ended, { message: 'cancelled' })
    t.ok(performance.now() - cancelledMs < 4_000, 'a cancelled one is not waited for at all')
  },
)

t.test('progress of an entry that is gone is no progress', { buffered: true }, async (t) => {
  const one = await startOrderUpstream(t, 'openai-compatible')
  one.stands = 'done'
  const entry = entryOf('openai-compatible', one)
  const { claim } = jobAt(t, 'openai-compatible', [entry])
  const state = { id: 'video_1', everyMs: 2000, troubles: 0 }
  const gone = [
    entryKey({ ...entry, model: 'other' }),
    entryKey({ ...entry, options: { delete_after: true } }),
    entryKey({ ...entry, provider: { ...entry.provider, name: 'other' } }),
    '',
  ]
  await Promise.all(gone.map((key) => claim({ entry: key, state }).ended))
  t.equal(one.count('order'), gone.length)

  const before = one.count('order')
  await claim({ entry: entryKey(structuredClone(entry)), state }).ended
  t.equal(one.count('order'), before, 'a reload changes nothing')
})

t.test('the name of an entry is the same however its options are ordered', { buffered: true }, async (t) => {
  const entry = entryAt('http://127.0.0.1:1', { options: { a: 1, b: 2 } })
  t.equal(entryKey({ ...entry, options: { b: 2, a: 1 } }), entryKey(entry))
  t.not(entryKey({ ...entry, options: { a: 1 } }), entryKey(entry))
  t.not(entryKey({ ...entry, weight: 2, options: { a: 2, b: 1 } }), entryKey(entry))
})

/** What a store may hold that no version has written, or that one before us has. */
const STRANGE: readonly unknown[] = [
  null,
  undefined,
  0,
  'video_1',
  [],
  ['video_1'],
  {},
  { id: null },
  { id: '' },
  { id: '..' },
  { id: 7 },
  { id: { id: 'x' } },
  { id: 'x'.repeat(5000) },
  { id: '\ud800' },
  { version: 2, job: { id: 'video_1' } },
]

t.test('what cannot be gone on with is made anew', { buffered: true }, async (t) => {
  const one = await startOrderUpstream(t, 'assemblyai')
  one.stands = 'done'
  const entry = entryOf('assemblyai', one)
  const { claim } = jobAt(t, 'assemblyai', [entry])
  const states = [...STRANGE, { id: '../../v2/upload' }, { id: 'a/b' }, { id: 'a?b' }]
  await Promise.all(states.map((state) => claim({ entry: entryKey(entry), state }).ended))
  t.equal(one.count('order'), states.length)
  t.equal(one.count('look'), states.length)
  t.notOk(one.acts.includes('?'))
})

t.test('an order that cannot be asked after is not made again', { buffered: true }, async (t) => {
  for (const protocol of ['runway', 'openai-compatible', 'gemini'] as const) {
    const [one, other] = [await startOrderUpstream(t, protocol), await startOrderUpstream(t, protocol)]
    const entry = entryOf(protocol, one)
    const { claim } = jobAt(t, protocol, [entryOf(protocol, other), entry])
    for (const state of STRANGE) {
      const refusal = await refusalOf(claim({ entry: entryKey(entry), state }).ended)
      t.equal(refusal.code, 'UPSTREAM_OUTCOME_UNKNOWN', `${protocol}: ${JSON.stringify(state)}`)
    }
    t.same([...one.acts, ...other.acts], [], `${protocol}: nobody is asked for anything`)
  }
})

t.test('an order whose end stays unknown is not made again', { buffered: true }, async (t) => {
  const rows: [Ordering, OrderUpstream['stands']][] = [
    ['runway', 404],
    ['openai-compatible', 403],
    ['gemini', 404],
  ]
  await Promise.all(
    rows.map(async ([protocol, stands]) => {
      const [one, other] = [await startOrderUpstream(t, protocol), await startOrderUpstream(t, protocol)]
      other.stands = 'done'
      const { claim, interrupted } = jobAt(t, protocol, [entryOf(protocol, one), entryOf(protocol, other)])
      const progress = await interrupted()
      one.stands = stands
      const { ended, notes } = claim(progress)
      t.equal((await refusalOf(ended)).code, 'UPSTREAM_OUTCOME_UNKNOWN', protocol)
      t.equal(one.count('order'), 1)
      t.same(other.acts, [], 'nor elsewhere')
      t.notOk(notes.includes(null), 'and not forgotten')
    }),
  )
})

t.test(
  'an order that the provider has failed is made elsewhere, and is forgotten',
  { buffered: true },
  async (t) => {
    await Promise.all(
      ORDERING.map(async (protocol) => {
        const [one, other] = [await startOrderUpstream(t, protocol), await startOrderUpstream(t, protocol)]
        other.stands = 'done'
        const entries = [entryOf(protocol, one), entryOf(protocol, other)]
        const { claim, interrupted } = jobAt(t, protocol, entries)
        const progress = await interrupted()
        one.stands = 'failed'
        const { ended, notes } = claim(progress)
        await ended
        t.equal(one.count('order'), 1, protocol)
        t.equal(other.count('order'), 1, protocol)
        const [forgotten, next] = notes
        t.equal(forgotten, null)
        t.equal(next?.entry, entryKey(entries[1]!), 'what the other works on is kept instead')
        t.equal(notes.length, 2)
      }),
    )
  },
)

t.test(
  'an order is asked after first, wherever its entry stands and however it fares',
  { buffered: true },
  async (t) => {
    const protocol = 'openai-compatible'
    const [one, other] = [await startOrderUpstream(t, protocol), await startOrderUpstream(t, protocol)]
    const entries = [entryOf(protocol, other), entryOf(protocol, one)]
    const { rig, claim } = jobAt(t, protocol, entries)
    const state = { id: 'video_1', everyMs: 2000, troubles: 0 }
    const progress = { entry: entryKey(entries[1]!), state }
    one.stands = 'done'
    await claim(progress).ended
    t.same([...one.acts, ...other.acts], ['look'])

    const failure = { kind: 'rate', status: 429, reason: 'too many', retryAfterMs: 60_000 } as const
    rig.services.health.failed(entries[1]!, { ...failure, providerMessage: null }, performance.now())
    await claim(progress).ended
    t.same([...one.acts, ...other.acts], ['look', 'look'], 'it has asked to be left alone')
  },
)

t.test(
  'a transcript that is deleted behind its reading cannot be gone on with',
  { buffered: true },
  async (t) => {
    const one = await startOrderUpstream(t, 'assemblyai')
    const entry = entryOf('assemblyai', one, { options: { delete_after: true } })
    const { claim, interrupted } = jobAt(t, 'assemblyai', [entry])
    const progress = await interrupted()
    one.stands = 'done'
    const { ended, notes } = claim(progress)
    await ended
    t.same(one.acts, ['upload', 'order', 'look', 'stop'])
    t.equal(notes.at(-1), null)
  },
)

t.test('what is answered at once leaves nothing', { buffered: true }, async (t) => {
  const choices = [{ index: 0, message: { role: 'assistant', content: 'well' }, finish_reason: 'stop' }]
  const { origin, requests } = await upstream(t, (response) => {
    setTimeout(() => response.end(JSON.stringify({ choices })), 200)
  })
  const { services, request } = gatewayRig(t, { entries: [entryOf('openai-compatible', { origin })] })
  const notes: unknown[] = []
  const job = {
    id: 'qj_1',
    claim: 1,
    retries: 0,
    deadlineMs: 10_000,
    progress: null,
    note: (noted: unknown) => void notes.push(noted),
  }
  ;(await runForJob(services, request('chat', chatCall()), job)).release()
  const leaving = new AbortController()
  const interrupted = runForJob(services, request('chat', chatCall(), leaving.signal), job)
  t.ok(await waitUntil(() => requests.length === 2))
  leaving.abort(new Interrupted())
  await t.rejects(interrupted, Interrupted)
  t.same(notes, [])
})
