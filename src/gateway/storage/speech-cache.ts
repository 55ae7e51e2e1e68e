import { hash } from 'node:crypto'
import type { ByteBudget } from '../../contracts/budget.ts'
import type { CacheTerms } from '../../contracts/catalog.ts'
import type { ObjectInfo, Objects } from '../../contracts/objects.ts'
import type { Permits } from '../../contracts/permits.ts'
import type { CachePlace, CacheWatch, KeptSpeech, SpeechCache } from '../../contracts/speech-cache.ts'
import { type Clock, deadline, systemClock } from '../../contracts/time.ts'
import { chunksOf, copyBytes, objectBytes } from './body-bytes.ts'
import { accounted, isScarce } from './budget.ts'

/** Part of the memory of the process that speech may hold, and the most that one answer may. */
const MEMORY_SHARE = 1 / 16
const ANSWER_SHARE = 1 / 8
/** About what an answer takes beside its audio, bytes. */
const ANSWER_OVERHEAD = 512

/** First bytes of an object: a line of JSON that says what follows, filled up with spaces. */
const HEAD_BYTES = 512
/** Version of the layout of objects: one of another release counts as absent. */
const LAYOUT = 1
/** Longest that a caller waits for the store, who can have the audio from a provider instead. */
const FIND_MS = 1_000
const KEEP_MS = 10_000
/** How long the store is left alone after it did not answer in time. */
const PAUSE_MS = 5_000
/** By how much the clock of the node that kept it may be ahead. */
const AHEAD_MS = 60_000

/** How often a node that keeps speech looks at the sum over all nodes, at least; sooner where it has kept much. */
const LOOK_MS = 30_000
const LOOK_SHARE = 1 / 8
/** Share of the limit that stays when room is made, so that it is not made again at once. */
const LEFT_SHARE = 7 / 8

export interface SpeechCacheOptions {
  readonly objects: Objects
  readonly budget: ByteBudget
  /** Over all nodes one at a time makes room. */
  readonly permits: Pick<Permits, 'take'>
  /** Absent: evictions are not counted. */
  readonly watch?: Pick<CacheWatch, 'evicted'> | undefined
  readonly clock?: Clock
}

/** Keeps speech in the memory of this node and as objects `cache/<workspace>/<digest>/0`. */
export function createSpeechCache(options: SpeechCacheOptions): SpeechCache {
  return new TieredSpeechCache(options)
}

interface DatedSpeech extends KeptSpeech {
  readonly keptAtMs: number
}

interface HeldSpeech {
  readonly speech: DatedSpeech
  /** Since it was last looked at for what may go. */
  wasAskedFor: boolean
}

class TieredSpeechCache implements SpeechCache {
  readonly #objects: Objects
  readonly #budget: ByteBudget
  readonly #memory: SpeechMemory
  readonly #room: RoomKeeper
  readonly #clock: Clock
  #pausedUntilMs = 0

  constructor(options: SpeechCacheOptions) {
    const { objects, budget, clock = systemClock } = options
    this.#objects = objects
    this.#budget = budget
    this.#memory = new SpeechMemory(budget)
    this.#room = new RoomKeeper({ ...options, clock })
    this.#clock = clock
  }

  recall({ digest }: CachePlace, terms: CacheTerms): KeptSpeech | null {
    const kept = this.#memory.get(digest)
    if (kept === null || this.#isFresh(kept, terms)) return kept
    this.#memory.drop(digest)
    return null
  }

  async find(place: CachePlace, terms: CacheTerms): Promise<KeptSpeech | null> {
    if (this.#isPaused()) return null
    const signal = deadline(this.#clock, FIND_MS)
    try {
      const kept = await this.#read(objectName(place), signal)
      if (kept === null || !this.#isFresh(kept, terms)) return null
      this.#memory.put(place.digest, kept)
      return kept
    } catch {
      // An object that is not there fails like a store that is away; only one that hangs holds callers up.
      if (signal.aborted) this.#pause()
      return null
    }
  }

  async keep(place: CachePlace, terms: CacheTerms, { audio, mediaType }: KeptSpeech): Promise<void> {
    const kept = { audio, mediaType, keptAtMs: this.#clock.wallNow() }
    this.#memory.put(place.digest, kept)
    const head = headOf(kept)
    const bytes = HEAD_BYTES + audio.length
    if (head === null || bytes > terms.maxBytes || this.#isPaused()) return
    const signal = deadline(this.#clock, KEEP_MS)
    try {
      await this.#objects.put(objectName(place), chunksOf(head, audio), bytes, { signal })
    } catch {
      if (signal.aborted) this.#pause()
      return
    }
    // Room is made in the background.
    void this.#room.kept(place.workspace, bytes, terms)
  }

  close(): void {
    this.#memory.clear()
  }

  /** @returns null when the object is not what was kept */
  async #read(name: string, signal: AbortSignal): Promise<DatedSpeech | null> {
    const head = readHead(
      await copyBytes(objectBytes(this.#objects, name, 0, HEAD_BYTES, signal), HEAD_BYTES),
    )
    if (head === null) return null
    const { bytes, sha256, mediaType, keptAtMs } = head
    return await accounted(this.#budget, bytes, async () => {
      const rest = objectBytes(this.#objects, name, HEAD_BYTES, HEAD_BYTES + bytes, signal)
      const audio = await copyBytes(rest, bytes)
      return hash('sha256', audio) === sha256 ? { audio, mediaType, keptAtMs } : null
    })
  }

  #isFresh({ keptAtMs }: DatedSpeech, { ttlSeconds }: CacheTerms): boolean {
    const ageMs = this.#clock.wallNow() - keptAtMs
    return ageMs < ttlSeconds * 1000 && ageMs > -AHEAD_MS
  }

  #isPaused(): boolean {
    return this.#clock.wallNow() < this.#pausedUntilMs
  }

  #pause(): void {
    this.#pausedUntilMs = this.#clock.wallNow() + PAUSE_MS
  }
}

/** A name of the configuration is a segment of a key as it is, so that no two workspaces share one. */
function prefixOf(workspace: string): string {
  return `cache/${workspace}/`
}

function objectName({ workspace, digest }: CachePlace): string {
  return `${prefixOf(workspace)}${digest}/0`
}

/** First bytes of an object; null when the fields do not fit. */
function headOf({ audio, mediaType, keptAtMs }: DatedSpeech): Uint8Array | null {
  const fields = {
    layout: LAYOUT,
    bytes: audio.length,
    sha256: hash('sha256', audio),
    media_type: mediaType,
    kept_at_ms: keptAtMs,
  }
  const text = Buffer.from(JSON.stringify(fields))
  return text.length > HEAD_BYTES ? null : Buffer.concat([text, Buffer.alloc(HEAD_BYTES - text.length, ' ')])
}

function readHead(bytes: Uint8Array) {
  const fields = parsedHead(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString())
  const { layout, bytes: length, sha256, media_type: mediaType, kept_at_ms: keptAtMs } = fields
  if (layout !== LAYOUT || typeof sha256 !== 'string' || typeof mediaType !== 'string') return null
  if (!Number.isSafeInteger(length) || (length as number) < 0 || typeof keptAtMs !== 'number') return null
  return { bytes: length as number, sha256, mediaType, keptAtMs }
}

function parsedHead(text: string): Readonly<Record<string, unknown>> {
  try {
    return Object(JSON.parse(text))
  } catch {
    return {}
  }
}

/**
 * The speech that was asked for of late, as far as the memory of the process has room for it: the oldest that was not
 * asked for since it was last its turn has to go.
 */
class SpeechMemory {
  readonly #budget: ByteBudget
  readonly #limit: number
  /** By digest, in the order in which they may have to go. */
  readonly #kept = new Map<string, HeldSpeech>()
  #held = 0

  constructor(budget: ByteBudget) {
    this.#budget = budget
    this.#limit = budget.limit * MEMORY_SHARE
  }

  get(digest: string): DatedSpeech | null {
    const kept = this.#kept.get(digest)
    if (kept === undefined) return null
    // To put it at the end each time would take longer than all else here.
    kept.wasAskedFor = true
    return kept.speech
  }

  put(digest: string, speech: DatedSpeech): void {
    this.drop(digest)
    const bytes = heldBytes(speech)
    // Bodies that are under way come before answers that can be read again.
    const limit = isScarce(this.#budget) ? 0 : this.#limit
    const fits = bytes <= this.#limit * ANSWER_SHARE
    // An answer that is put at the end comes up again, and goes then.
    for (const [oldest, kept] of this.#kept) {
      if (this.#held + (fits ? bytes : 0) <= limit) break
      if (!kept.wasAskedFor) this.drop(oldest)
      else {
        kept.wasAskedFor = false
        this.#kept.delete(oldest)
        this.#kept.set(oldest, kept)
      }
    }
    if (!fits || limit === 0 || !this.#budget.tryReserve(bytes)) return
    this.#held += bytes
    this.#kept.set(digest, { speech, wasAskedFor: false })
  }

  clear(): void {
    for (const digest of [...this.#kept.keys()]) this.drop(digest)
  }

  drop(digest: string): void {
    const kept = this.#kept.get(digest)
    if (kept === undefined) return
    this.#kept.delete(digest)
    this.#held -= heldBytes(kept.speech)
    this.#budget.refund(heldBytes(kept.speech))
  }
}

function heldBytes({ audio }: KeptSpeech): number {
  return audio.length + ANSWER_OVERHEAD
}

/** This node's knowledge of the speech of a workspace. */
interface Sum {
  /** Over all nodes, as it was seen last; null: never. */
  seenBytes: number | null
  seenAtMs: number
  /** Kept by this node since then. */
  addedBytes: number
  isLooking: boolean
}

/**
 * Keeps the speech of each workspace below its limit, over all nodes. Each one looks at the sum after it has kept an
 * eighth of that, and every 30 s in which it has kept anything, so that the nodes pass it together by an eighth each at
 * most, until the next look. The oldest go first.
 */
class RoomKeeper {
  readonly #options: SpeechCacheOptions & { readonly clock: Clock }
  readonly #sums = new Map<string, Sum>()

  constructor(options: SpeechCacheOptions & { readonly clock: Clock }) {
    this.#options = options
  }

  /** Notes that this node has kept so much more. Never rejects. */
  async kept(workspace: string, bytes: number, terms: CacheTerms): Promise<void> {
    const sum = this.#sumOf(workspace)
    sum.addedBytes += bytes
    if (sum.isLooking || !this.#isDue(sum, terms)) return
    sum.isLooking = true
    try {
      await this.#look(workspace, sum, terms)
    } catch {
      // The next one that is kept looks again.
    } finally {
      sum.isLooking = false
    }
  }

  #sumOf(workspace: string): Sum {
    let sum = this.#sums.get(workspace)
    if (sum === undefined) {
      sum = { seenBytes: null, seenAtMs: 0, addedBytes: 0, isLooking: false }
      this.#sums.set(workspace, sum)
    }
    return sum
  }

  #isDue({ seenBytes, seenAtMs, addedBytes }: Sum, { maxBytes }: CacheTerms): boolean {
    if (seenBytes === null || seenBytes + addedBytes > maxBytes) return true
    return addedBytes >= maxBytes * LOOK_SHARE || this.#options.clock.wallNow() - seenAtMs >= LOOK_MS
  }

  async #look(workspace: string, sum: Sum, terms: CacheTerms): Promise<void> {
    const taken = await this.#options.permits.take([{ name: `cache:room:${workspace}`, most: 1 }])
    // Another node is at it; this one looks when it keeps the next.
    if ('full' in taken) return
    try {
      do {
        sum.addedBytes = 0
        sum.seenAtMs = this.#options.clock.wallNow()
        sum.seenBytes = await this.#makeRoom(workspace, terms)
        // Answers that were kept meanwhile may exceed it again.
      } while (sum.seenBytes + sum.addedBytes > terms.maxBytes)
    } finally {
      taken.lease.release()
    }
  }

  /** Removes the oldest while there is too much. @returns bytes that are left */
  async #makeRoom(workspace: string, { maxBytes }: CacheTerms): Promise<number> {
    const objects: ObjectInfo[] = []
    let left = 0
    for await (const object of this.#options.objects.list(prefixOf(workspace))) {
      objects.push(object)
      left += object.bytes
    }
    if (left <= maxBytes) return left
    objects.sort((a, b) => a.modifiedAt.getTime() - b.modifiedAt.getTime())
    for (const { key, bytes } of objects) {
      if (left <= maxBytes * LEFT_SHARE) break
      await this.#options.objects.remove(key)
      left -= bytes
      this.#options.watch?.evicted()
    }
    return left
  }
}
