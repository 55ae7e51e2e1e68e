import { hash } from 'node:crypto'
import type { SpeechResult } from '../../../contracts/calls.ts'
import type { CacheTerms, Entry } from '../../../contracts/catalog.ts'
import { ERRORS, GatewayError } from '../../../contracts/errors.ts'
import { canonicalJson } from '../../../contracts/json.ts'
import type { Deltas } from '../../../contracts/operations.ts'
import type { PermitLease } from '../../../contracts/permits.ts'
import type { CacheOutcome, KeptSpeech, SpeechCache } from '../../../contracts/speech-cache.ts'
import { unlessAborted } from '../../../contracts/time.ts'
import type { CallContext } from '../context/call-context.ts'
import type { ActiveCall } from '../context/services.ts'
import { againOf, type EntryPlace } from '../facts/call.ts'
import { requirementsFor } from '../select/eligibility.ts'
import type { Candidate, Selection } from '../select/selection.ts'
import { encodingAt, nativeFormat } from '../select/speech-format.ts'
import { leaseMemory, type MemoryLease } from './operation.ts'
import { keptOutcome, type Outcome } from './outcome.ts'
import { CancellableStream, type Streaming, WholeStreaming } from './stream.ts'

/**
 * Speech that was made before, for who asks for the same again. It is looked up once the entries are selected and
 * before any money is set aside; a call that finds it is over. Of those that find nothing at the same time one asks the
 * provider, over all nodes, and the others get what it gets: on its node as it comes, on other nodes when it is kept.
 */

type SpeechAnswer = Outcome<'speech'> | Streaming<'speech'>

/** Makes the call at its entries, as any call is made. */
type Start = (active: ActiveCall) => Promise<unknown>

/** How a call may be answered out of what is kept. */
interface CachedCall {
  readonly active: ActiveCall<'speech'>
  readonly selection: Selection
  /** The entry that would be tried first: its speech is what is looked for. */
  readonly first: Candidate
  readonly cache: SpeechCache
  readonly terms: CacheTerms
  readonly place: EntryPlace
  readonly start: Start
  readonly mode: 'whole' | 'streamed' | 'job'
}

const DAY_SECONDS = 24 * 3600

/**
 * Answers a call out of the speech that its route keeps, or makes it and keeps what comes.
 *
 * @returns null when its route keeps nothing of it
 * @throws  as the call that is made
 */
export function answerCached(
  active: ActiveCall,
  selection: Selection,
  mode: CachedCall['mode'],
  start: Start,
): WholeStreaming<'speech'> | Promise<SpeechAnswer> | null {
  const { services, context, call } = active
  const first = selection.candidates[0] as Candidate
  const { cache: terms } = first.route
  const { speechCache: cache } = services
  if (terms === undefined || cache === undefined || call.operation !== 'speech') return null
  const days = requirementsFor(call.selectors, context.principal)?.retentionDays ?? null
  if (days !== null && days * DAY_SECONDS < terms.ttlSeconds) {
    note(active, first.entry, 'bypassed')
    return null
  }
  const speech = active as ActiveCall<'speech'>
  const place = entryPlace(speech, first.entry)
  const cached = { active: speech, selection, first, cache, terms, place, start, mode }
  const kept = cache.recall(place, terms)
  if (kept !== null) {
    const again = againOf(call)
    if (again !== undefined) again.place = place
    const found = hit(cached, first, keptAudio(kept))
    // The answer is synchronous where no wait is needed.
    return found instanceof WholeStreaming ? found : Promise.resolve(found)
  }
  return mode === 'job' ? answerJob(cached) : answerInFlight(cached)
}

/** Speech is the same for callers of one workspace who ask one entry for the same: every field of the call counts. */
function entryPlace({ context, call }: ActiveCall<'speech'>, entry: Entry): EntryPlace {
  const workspace = context.principal.workspace.id
  const known = againOf(call)?.place ?? null
  if (known !== null && known.entry === entry && known.workspace === workspace) return known
  const response_format = nativeFormat(entry, call.payload) ?? call.payload.response_format
  const { format_aliases: _, ...payload } = { ...call.payload, response_format }
  const fields: Readonly<Record<string, unknown>> = payload
  const parts: unknown[] = [workspace, entryVersion(entry)]
  for (const name of Object.keys(fields).sort()) parts.push(name, fields[name])
  return { workspace, entry, digest: hash('sha256', JSON.stringify(parts)) }
}

const versions = new WeakMap<Entry, string>()

/** Changes with all of an entry that its audio depends on. */
function entryVersion(entry: Entry): string {
  let version = versions.get(entry)
  if (version === undefined) {
    const { provider, model, voices, options } = entry
    const { name, kind, baseUrl } = provider
    version = hash('sha256', canonicalJson({ name, kind, baseUrl, model, voices, options }))
    versions.set(entry, version)
  }
  return version
}

/** Notes on the context what became of the look, and counts it. */
function note({ context, services }: ActiveCall, entry: Entry, how: CacheOutcome): void {
  context.answer.cache = how === 'hit' || how === 'joined' ? 'hit' : 'miss'
  services.cacheWatch?.looked(entry, how)
}

/** The same of speech that was made before, maybe in a format that was made here. */
function noteHit(active: ActiveCall<'speech'>, { entry }: Candidate, how: 'hit' | 'joined'): void {
  note(active, entry, how)
  active.context.answer.encodedFrom = encodingAt(entry, active.call.payload)?.source ?? null
}

function keptAudio({ audio, mediaType }: KeptSpeech): SpeechResult {
  return { audio: [audio], mediaType }
}

function audioLength({ audio }: SpeechResult): number {
  return audio.reduce((sum, { length }) => sum + length, 0)
}

/**
 * Answers with audio that is here.
 *
 * @param leave gives back what holds it; absent: it is held for others, too
 */
function hit(
  { active, selection, mode }: CachedCall,
  candidate: Candidate,
  result: SpeechResult,
  leave?: () => void,
): SpeechAnswer {
  noteHit(active, candidate, leave === undefined ? 'hit' : 'joined')
  active.services.cacheWatch?.spared(candidate.entry, audioLength(result))
  const outcome = keptOutcome(active, selection, candidate, result, leave)
  return mode === 'streamed' ? new WholeStreaming(outcome, deltasOf) : outcome
}

/** Most of kept audio that is one delta, as of a provider that streams: not all of it is to be in one event. */
const DELTA_BYTES = 48 * 1024

async function* deltasOf({ audio, mediaType }: SpeechResult): AsyncGenerator<Deltas['speech'], void, void> {
  for (const bytes of audio)
    for (let start = 0; start < bytes.length; start += DELTA_BYTES)
      yield { bytes: bytes.subarray(start, start + DELTA_BYTES), mediaType }
}

/** A job uses and fills the cache but waits for no other call: it is not in a hurry, nor do others wait for it. */
async function answerJob(cached: CachedCall): Promise<SpeechAnswer> {
  const { active, cache, place, terms, first } = cached
  const found = await cache.find(place, terms)
  if (found !== null) return hit(cached, first, keptAudio(found))
  note(active, first.entry, 'miss')
  const outcome = (await cached.start(active)) as Outcome<'speech'>
  await keep(cached, outcome.result)
  return outcome
}

/** Keeps what an entry has made, as the speech of that entry. */
async function keep({ active, cache, terms, first }: CachedCall, result: SpeechResult): Promise<void> {
  if (audioLength(result) === 0) return
  const entry = entryOf(active.context, first)
  const audio = Buffer.concat(result.audio)
  await cache.keep(entryPlace(active, entry), terms, { audio, mediaType: result.mediaType })
}

/** The entry that was asked last. */
function entryOf({ money: { estimate } }: CallContext, first: Candidate): Entry {
  return estimate?.entry ?? first.entry
}

/** Calls that are under way for others, too, by the digest of what they bring. */
const flights = new WeakMap<SpeechCache, Map<string, Flight>>()

function flightsOf(cache: SpeechCache): Map<string, Flight> {
  let known = flights.get(cache)
  if (known === undefined) {
    known = new Map()
    flights.set(cache, known)
  }
  return known
}

/** Joins the call that is under way for the same, or makes it. */
async function answerInFlight(cached: CachedCall): Promise<SpeechAnswer> {
  const { active, cache, place } = cached
  for (;;) {
    active.signal.throwIfAborted()
    const flight = flightsOf(cache).get(place.digest)
    if (flight === undefined) return lead(cached)
    const joined = await join(cached, flight)
    if (joined !== null) return joined
  }
}

/** @returns null when the call that was joined has failed for a reason of its own caller */
async function join(cached: CachedCall, flight: Flight): Promise<SpeechAnswer | null> {
  const { active, selection, mode } = cached
  const { services, context, signal } = active
  const leave = flight.enter()
  try {
    const begun = mode === 'whole' ? flight.ended : flight.begun
    const entry = await context.externalWait(unlessAborted(signal, begun), services.clock)
    // It may have failed over to one that this caller's may not.
    const candidate = selection.candidates.find((one) => entryVersion(one.entry) === entryVersion(entry))
    if (candidate !== undefined) {
      if (flight.isWhole) return hit(cached, candidate, flight.result, leave)
      return joinedStreaming(cached, candidate, flight, leave)
    }
  } catch (thrown) {
    leave()
    if (signal.aborted || !isOwn(thrown)) throw thrown
    return null
  }
  leave()
  note(active, cached.first.entry, 'miss')
  return (await cached.start(active)) as SpeechAnswer
}

/** Whether a failure says nothing of what another caller would be told: money, and the state that counts it. */
function isOwn(thrown: unknown): boolean {
  if (!(thrown instanceof GatewayError)) return false
  return ERRORS[thrown.code].category === 'billing' || thrown.code === 'DEPENDENCY_UNAVAILABLE'
}

/** Audio of another call on its way to a caller, who pays nothing for it. */
function joinedStreaming(
  { active, selection }: CachedCall,
  candidate: Candidate,
  flight: Flight,
  leave: () => void,
): Streaming<'speech'> {
  const { entry } = candidate
  noteHit(active, candidate, 'joined')
  const spared = () => active.services.cacheWatch?.spared(entry, audioLength(flight.result))
  void flight.ended.then(spared, () => {})
  const outcome = keptOutcome(active, selection, candidate, { audio: [], mediaType: '' })
  const { envelope, payload } = outcome
  const { warnings } = envelope
  const deltas = flight.read(leave)
  return { head: envelope, expected: envelope, warnings, payload, deltas, outcome: () => outcome }
}

/** Makes the call for everybody who asks for the same meanwhile. It continues when its own caller leaves. */
function lead(cached: CachedCall): Promise<SpeechAnswer> {
  const { active, cache, place } = cached
  const { services, context, signal } = active
  const flight = new Flight(leaseMemory(services.budget, context))
  const known = flightsOf(cache)
  known.set(place.digest, flight)
  const leave = flight.enter()
  const answered = Promise.withResolvers<SpeechAnswer>()
  const detached = { ...cached, active: { ...active, signal: new AbortController().signal } }
  const flown = fly(detached, flight, { answer: answered.resolve, leave })
    .catch((thrown: unknown) => {
      flight.fail(thrown)
      answered.reject(thrown)
    })
    .finally(() => known.delete(place.digest))
  void services.settlements.during(flown)
  return unlessAborted(signal, answered.promise).catch((thrown: unknown) => {
    leave()
    if (signal.aborted) void answered.promise.then(dismiss, () => {})
    throw thrown
  })
}

function dismiss(answer: SpeechAnswer): void {
  if ('release' in answer) answer.release()
}

/** The caller for whom a call was begun that others have joined. */
interface Leader {
  answer(answer: SpeechAnswer): void
  /** It does not read what comes. Idempotent. */
  leave(): void
}

/** Finds the speech that another node has kept, or makes it. */
async function fly(cached: CachedCall, flight: Flight, leader: Leader): Promise<void> {
  const { active, cache, place, terms, first } = cached
  let kept = await cache.find(place, terms)
  const lease = kept === null ? await leaseFor(cached) : null
  try {
    // The previous holder of the lease has kept what it got.
    kept ??= await cache.find(place, terms)
    if (kept !== null) {
      flight.push(first.entry, kept.audio, kept.mediaType)
      flight.end()
      leader.leave()
      leader.answer(hit(cached, first, keptAudio(kept)))
      return
    }
    note(active, first.entry, 'miss')
    await make(cached, flight, leader)
    await keep(cached, flight.result)
  } finally {
    lease?.release()
  }
}

/**
 * Waits while another node makes the same, for half of the time that there is: this one does so when it has nothing by
 * then, or when that node has died and its lease is over.
 */
function leaseFor({ active, place }: CachedCall): Promise<PermitLease | null> {
  const { services, context, signal, deadlineAtMs } = active
  const waitMs = Math.max(0, (deadlineAtMs - services.clock.now()) / 2)
  const limit = { name: `cache:${place.digest}`, most: 1 }
  const { permits } = services.state
  return context.externalWait(
    permits.wait(limit, { workspace: place.workspace, waitMs, signal }),
    services.clock,
  )
}

/** Makes the call at its entries. Its audio is read as fast as it comes, since several wait for it. */
async function make({ active, first, start }: CachedCall, flight: Flight, leader: Leader): Promise<void> {
  const made = (await start(active)) as SpeechAnswer
  const entry = entryOf(active.context, first)
  if (!('deltas' in made)) {
    for (const bytes of made.result.audio) flight.push(entry, bytes, made.result.mediaType)
    flight.end()
    leader.leave()
    leader.answer(made)
    return
  }
  const { head, expected, warnings, payload, deltas } = made
  const own = flight.read(leader.leave)
  leader.answer({ head, expected, warnings, payload, deltas: own, outcome: () => made.outcome() })
  for await (const { bytes, mediaType } of deltas) flight.push(entry, bytes, mediaType)
  flight.end()
}

/** Audio on its way to several readers, each at its own pace. */
class Flight {
  readonly #memory: MemoryLease
  readonly #begun = Promise.withResolvers<Entry>()
  readonly #ended = Promise.withResolvers<Entry>()
  readonly #chunks: Uint8Array[] = []
  #mediaType = ''
  #entry: Entry | null = null
  #more = Promise.withResolvers<void>()
  #readers = 0
  #failure: { readonly thrown: unknown } | null = null
  /** All of it is here. */
  isWhole = false

  constructor(memory: MemoryLease) {
    this.#memory = memory
    // Perhaps no one waits for either.
    this.#begun.promise.catch(() => {})
    this.#ended.promise.catch(() => {})
  }

  /** Resolves to the entry that answers once the first of it is here. Rejects as the call fails. */
  get begun(): Promise<Entry> {
    return this.#begun.promise
  }

  /** The same once all of it is. */
  get ended(): Promise<Entry> {
    return this.#ended.promise
  }

  get result(): SpeechResult {
    return { audio: this.#chunks, mediaType: this.#mediaType }
  }

  push(entry: Entry, bytes: Uint8Array, mediaType: string): void {
    this.#entry = entry
    this.#mediaType = mediaType
    this.#chunks.push(bytes)
    this.#memory.charge(bytes.length)
    this.#begun.resolve(entry)
    this.#tell()
  }

  end(): void {
    if (this.#entry === null) {
      this.fail(new GatewayError('UPSTREAM_ERROR', 'the provider sent no audio'))
      return
    }
    this.isWhole = true
    this.#ended.resolve(this.#entry)
    this.#tell()
    this.#settle()
  }

  fail(thrown: unknown): void {
    this.#failure = { thrown }
    this.#begun.reject(thrown)
    this.#ended.reject(thrown)
    this.#tell()
    this.#settle()
  }

  /** Adds a reader, or one that waits to read. @returns what to call when it no longer does; idempotent */
  enter(): () => void {
    this.#readers += 1
    let isIn = true
    return () => {
      if (!isIn) return
      isIn = false
      this.#readers -= 1
      this.#settle()
    }
  }

  /** The audio from its beginning, for a reader who has entered, and leaves with the end of it. */
  read(leave: () => void): AsyncGenerator<Deltas['speech'], void, void> {
    return new CancellableStream(this.#deltas(leave), async () => leave())
  }

  async *#deltas(leave: () => void): AsyncGenerator<Deltas['speech'], void, void> {
    try {
      for (let at = 0; ; at += 1) {
        while (at === this.#chunks.length) {
          if (this.#failure !== null) throw this.#failure.thrown
          if (this.isWhole) return
          await this.#more.promise
        }
        yield { bytes: this.#chunks[at] as Uint8Array, mediaType: this.#mediaType }
      }
    } finally {
      leave()
    }
  }

  #tell(): void {
    const { resolve } = this.#more
    this.#more = Promise.withResolvers()
    resolve()
  }

  #settle(): void {
    const isOver = this.isWhole || this.#failure !== null
    if (isOver && this.#readers === 0) this.#memory.release()
  }
}
