import type { CutPlan, Stretch } from '../../../contracts/parts.ts'
import { TimeSlices } from '../../../contracts/time-slices.ts'
import { NO_SOUND, type Packet, type Sound, type SoundWriter, Uncuttable } from './sound.ts'

export interface PartSink<Kept> {
  write(chunks: readonly Uint8Array[]): Promise<void>
  /** @param head comes in front of all that was written */
  finish(head: Uint8Array): Promise<Kept>
}

/** A part as it was cut; moments are seconds of the whole. See `AudioPart`. */
export interface CutPart<Kept> {
  readonly kept: Kept
  readonly startSeconds: number
  readonly endSeconds: number
  readonly fromSeconds: number
  readonly toSeconds: number
  readonly endsQuietly: boolean
  /** Length of the file. */
  readonly soundSeconds: number
  readonly stretches: readonly Stretch[]
}

/** Silence of this length on both sides makes a cut quiet; as much of it is left to both parts. */
const QUIET_SECONDS = 0.15
const MARGIN_SECONDS = 0.5
/** Sound that may wait for a decision, bytes: more than a window has of any but the largest samples. */
const HELD_MAX_BYTES = 32 * 1024 * 1024
/** Packets that are held at most: as many of 2.5 ms as are in two minutes. */
const HELD_MAX_PACKETS = 48_000
/** Parts beyond twice the planned ones: the times of such a file are made up. */
const MORE_PARTS_MAX = 8
const UNPLANNED_PARTS_MAX = 2000
/** How much more bytes the seconds to come may have than those before. */
const BYTES_GROWTH = 1.5

/**
 * Cuts sound into parts, in one pass: each is cut within the window around its aim, in the middle of the longest
 * silence there, or at the quietest moment where there is none. There both parts get some seconds of each other.
 *
 * @param skipLevel up to which level long silence is left out; null: none is
 * @param open      makes the sink of the next part
 * @throws Uncuttable; what reading and the sinks throw
 */
export async function cutSound<Kept>(
  sound: Sound,
  plan: CutPlan,
  open: () => PartSink<Kept>,
  skipLevel: number | null = null,
): Promise<readonly CutPart<Kept>[]> {
  return await new Cutting(sound, plan, open, skipLevel).run()
}

/** A packet that waits for the decision where the cut is. */
interface Held {
  readonly packet: Packet
  readonly start: number
  readonly end: number
  readonly level: number
}

interface OpenPart<Kept> {
  readonly writer: SoundWriter
  readonly sink: PartSink<Kept>
  readonly startSeconds: number
  readonly fromSeconds: number
  endSeconds: number
  soundSeconds: number
  readonly stretches: Stretch[]
}

/** A place to cut, and the index of the first packet after it. */
interface Place {
  readonly index: number
  readonly at: number
  readonly isQuiet: boolean
  readonly margin: number
}

class Cutting<Kept> {
  readonly #sound: Sound
  readonly #plan: CutPlan
  readonly #open: () => PartSink<Kept>
  readonly #parts: CutPart<Kept>[] = []
  readonly #loudness = new Loudness()
  readonly #slices = new TimeSlices()
  #part: OpenPart<Kept>
  #held: Held[] = []
  #heldBytes = 0
  readonly #silence: LongSilence | null
  /** Length that this part is aimed at. */
  #aim: number

  constructor(sound: Sound, plan: CutPlan, open: () => PartSink<Kept>, skipLevel: number | null) {
    this.#silence = skipLevel === null ? null : new LongSilence(skipLevel)
    this.#sound = sound
    this.#plan = plan
    this.#open = open
    this.#aim = plan.targetSeconds
    this.#part = this.#begin(sound.startSeconds, 0)
  }

  async run(): Promise<readonly CutPart<Kept>[]> {
    const { rate, startSeconds } = this.#sound
    let ticks = 0
    for await (const packet of this.#sound.packets()) {
      const start = startSeconds + ticks / rate
      ticks += packet.ticks
      const end = startSeconds + ticks / rate
      const level = this.#sound.level(packet)
      this.#loudness.note(level, end - start)
      if (this.#slices.isOver) await this.#slices.next()
      const next = { packet, start, end, level }
      if (this.#silence === null) await this.#take(next)
      else for (const one of this.#silence.pass(next)) await this.#take(one)
    }
    if (ticks === 0) throw new Uncuttable('no sound')
    for (const one of this.#silence?.rest() ?? []) await this.#take(one)
    for (const one of this.#held) await this.#write(one)
    await this.#finish(startSeconds + ticks / rate, false)
    return this.#parts
  }

  async #take(next: Held): Promise<void> {
    if (this.#held.length === 0 && !this.#isNearAim(next)) return await this.#write(next)
    this.#held.push(copyOf(next))
    this.#heldBytes += next.packet.bytes.length
    if (this.#isWindowOver(next)) await this.#cut()
  }

  #isNearAim({ end }: Held): boolean {
    const { windowSeconds, overlapSeconds, maxBytes } = this.#plan
    const { writer, startSeconds, fromSeconds } = this.#part
    if (end - fromSeconds >= this.#aim - windowSeconds) return true
    const bytesPerSecond = writer.bytes / Math.max(1, end - startSeconds)
    return writer.bytes + bytesPerSecond * 2 * (windowSeconds + overlapSeconds) * BYTES_GROWTH >= maxBytes
  }

  #isWindowOver({ end }: Held): boolean {
    const { windowSeconds, overlapSeconds, maxSeconds, maxBytes } = this.#plan
    const { writer, startSeconds, fromSeconds } = this.#part
    // Packets cost some bytes beside their own: lengths in tables, headers of pages.
    const bytes = writer.bytes + this.#heldBytes + 16 * this.#held.length
    return (
      end - fromSeconds >= this.#aim + windowSeconds + overlapSeconds ||
      end - startSeconds >= maxSeconds - overlapSeconds / 2 ||
      bytes >= maxBytes * 0.99 ||
      this.#heldBytes >= HELD_MAX_BYTES ||
      this.#held.length >= HELD_MAX_PACKETS
    )
  }

  async #cut(): Promise<void> {
    const held = this.#held
    const place = this.#quietPlace() ?? this.#quietestPlace()
    if (place.at - this.#part.fromSeconds < this.#plan.overlapSeconds / 2)
      throw new Uncuttable('the limits are too narrow')
    for (const one of held) {
      if (one.start >= place.at && one.end > place.at + place.margin) break
      await this.#write(one)
    }
    await this.#finish(place.at, place.isQuiet)
    const again = held.slice(firstFrom(held, place.at - place.margin))
    this.#held = []
    this.#heldBytes = 0
    this.#part = this.#begin(again[0]?.start ?? place.at, place.at)
    this.#aim = this.#nextAim(place.at)
    for (const one of again) await this.#take(one)
  }

  /** All parts of what is left get the same length. */
  #nextAim(at: number): number {
    const { targetSeconds, windowSeconds, durationSeconds } = this.#plan
    const left = durationSeconds === null ? 0 : durationSeconds - at
    // There may be more than the file says.
    if (left <= windowSeconds / 2) return targetSeconds
    return left / Math.max(1, Math.ceil((left - windowSeconds / 2) / targetSeconds))
  }

  /** The middle of the longest silence in the window, of two as long that which is nearer to the aim; null: none. */
  #quietPlace(): Place | null {
    const held = this.#held
    const most = this.#loudness.silence(this.#sound.silenceDrop)
    const aim = this.#part.fromSeconds + this.#aim
    let best: { from: number; to: number } | null = null
    for (let index = 0; index < held.length; index += 1) {
      if (held[index]!.level > most) continue
      const from = index
      while (index + 1 < held.length && held[index + 1]!.level <= most) index += 1
      const run = { from: held[from]!.start, to: held[index]!.end }
      if (best === null || isBetter(run, best, aim)) best = run
    }
    if (best === null || best.to - best.from < 2 * QUIET_SECONDS) return null
    const index = firstFrom(held, (best.from + best.to) / 2)
    const at = held[index]?.start ?? best.to
    const margin = Math.max(0, Math.min(MARGIN_SECONDS, at - best.from, best.to - at) - QUIET_SECONDS / 2)
    return { index, at, isQuiet: true, margin }
  }

  /** The quietest moment with room on both sides for what the parts have in common. */
  #quietestPlace(): Place {
    const held = this.#held
    const [first, last] = [held[0]!.start, held.at(-1)!.end]
    // Packets of half a second, cut by a narrow limit.
    if (held.length === 1) return { index: 1, at: last, isQuiet: false, margin: 0 }
    const margin = Math.min(this.#plan.overlapSeconds, (last - first) / 4)
    let index = firstFrom(held, (first + last) / 2)
    let least = Number.POSITIVE_INFINITY
    const loudest = loudestNear(held)
    for (const [place, { start }] of held.entries()) {
      const level = loudest[place]!
      if (start < first + margin || start > last - margin || level >= least) continue
      least = level
      index = place
    }
    return { index, at: held[index]?.start ?? last, isQuiet: false, margin }
  }

  #begin(startSeconds: number, fromSeconds: number): OpenPart<Kept> {
    return {
      writer: this.#sound.begin(),
      sink: this.#open(),
      startSeconds,
      fromSeconds,
      endSeconds: startSeconds,
      soundSeconds: 0,
      stretches: [],
    }
  }

  async #write({ packet, start, end }: Held): Promise<void> {
    const part = this.#part
    const { writer, sink, stretches } = part
    const chunks = writer.add(packet)
    if (stretches.length === 0 || start > part.endSeconds + GAP_SECONDS)
      stretches.push({ atSeconds: part.soundSeconds, startSeconds: start })
    part.endSeconds = end
    part.soundSeconds += end - start
    if (chunks.length > 0) await sink.write(chunks)
  }

  async #finish(toSeconds: number, endsQuietly: boolean): Promise<void> {
    const { writer, sink, ...part } = this.#part
    const { head, tail } = writer.end()
    await sink.write(tail)
    const kept = await sink.finish(head)
    const { count } = this.#plan
    const most = count === null ? UNPLANNED_PARTS_MAX : 2 * count + MORE_PARTS_MAX
    if (this.#parts.length >= most) throw new Uncuttable('more sound than the file says')
    // Silence that is left out is at the end, too.
    const endSeconds = Math.max(part.endSeconds, toSeconds)
    this.#parts.push({ ...part, kept, endSeconds, toSeconds, endsQuietly })
  }
}

function copyOf(held: Held): Held {
  return { ...held, packet: { ...held.packet, bytes: held.packet.bytes.slice() } }
}

/** Rounding of times; silence that is left out is longer. */
const GAP_SECONDS = 0.001
/** Silence up to this length stays: what people need to think is a part of how they speak. */
const SKIP_SECONDS = 2
/** As much of it stays on both sides of the sound. */
const KEPT_SECONDS = 0.25

/** Lets sound pass, and leaves out what is in the middle of long silence. */
class LongSilence {
  readonly #level: number
  #held: Held[] = []
  /** The packets that are held are the end of silence whose beginning has passed. */
  #isSkipping = false

  constructor(level: number) {
    this.#level = level
  }

  /** @returns what can be written by now */
  pass(next: Held): readonly Held[] {
    if (next.level > this.#level) {
      const before = this.#held
      this.#held = []
      this.#isSkipping = false
      return [...before, next]
    }
    if (this.#held.length >= HELD_MAX_PACKETS) throw new Uncuttable('packets of no length')
    this.#held.push(copyOf(next))
    const { end } = next
    const first = this.#held[0]!.start
    if (this.#isSkipping) {
      const from = this.#held.findIndex((one) => one.end > end - KEPT_SECONDS)
      this.#held.splice(0, Math.max(0, from))
      return []
    }
    if (end - first <= SKIP_SECONDS) return []
    this.#isSkipping = true
    const kept = this.#held.filter((one) => one.start < first + KEPT_SECONDS)
    this.#held = this.#held.filter((one) => one.end > end - KEPT_SECONDS)
    return kept
  }

  /** @returns what is left at the end of the sound */
  rest(): readonly Held[] {
    return this.#isSkipping ? [] : this.#held
  }
}

function isBetter(
  run: { from: number; to: number },
  best: { from: number; to: number },
  aim: number,
): boolean {
  // Beyond a second silence is silence.
  const [length, most] = [Math.min(1, run.to - run.from), Math.min(1, best.to - best.from)]
  if (Math.abs(length - most) > 0.01) return length > most
  const off = ({ from, to }: typeof run) => Math.abs((from + to) / 2 - aim)
  return off(run) < off(best)
}

function firstFrom(held: readonly Held[], at: number): number {
  const index = held.findIndex(({ end }) => end > at + 1e-6)
  return index < 0 ? held.length - 1 : index
}

/** The loudest level near each packet, in time that does not depend on how many share a moment. */
function loudestNear(held: readonly Held[]): readonly number[] {
  // The loudest of those that are near, each louder than those after it.
  const falling: Held[] = []
  let [first, to] = [0, 0]
  return held.map(({ start }) => {
    for (; to < held.length && held[to]!.start < start + QUIET_SECONDS; to += 1) {
      while (falling.length > first && falling.at(-1)!.level <= held[to]!.level) falling.pop()
      falling.push(held[to]!)
    }
    while (falling[first]!.end <= start - QUIET_SECONDS) first += 1
    return falling[first]!.level
  })
}

/**
 * Measures up to which level silence may be left out of sound, in a pass of its own: a beginning tells nothing of how
 * loud the rest is.
 */
export async function skipLevelOf(sound: Sound): Promise<number> {
  const loudness = new Loudness()
  const slices = new TimeSlices()
  for await (const packet of sound.packets()) {
    loudness.note(sound.level(packet), packet.ticks / sound.rate)
    if (slices.isOver) await slices.next()
  }
  return loudness.silence(sound.skipDrop)
}

/** Mean of the power of sound, as a level. Speech makes nearly all of it, however seldom there is any. */
class Loudness {
  #power = 0
  #seconds = 0
  /** Powers are relative to this level, so that none is too small a number. */
  #reference = NO_SOUND

  note(level: number, seconds: number): void {
    if (level > this.#reference) {
      this.#power *= 10 ** ((this.#reference - level) / 10)
      this.#reference = level
    }
    this.#power += seconds * 10 ** ((level - this.#reference) / 10)
    this.#seconds += seconds
  }

  /** The level up to which sound counts as silence. */
  silence(drop: number): number {
    if (this.#power === 0) return NO_SOUND
    const mean = this.#reference + 10 * Math.log10(this.#power / this.#seconds)
    return Math.max(NO_SOUND, mean - drop)
  }
}
