import type { RefObject } from 'preact'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { Segment, Word } from '../../../../contracts/calls.ts'
import { Facts } from '../../components/page-head.ts'
import { Note } from '../../components/states.ts'
import { duration, milliseconds, number, orNone, usd } from '../../format.ts'
import { h } from '../../h.ts'
import { requestPath } from '../../paths.ts'
import type { CallFacts } from './reply.ts'

/**
 * A transcript whose words are lit while they are heard. A click on a word, or Enter, winds there; the arrow keys go
 * from word to word. What lights up is changed in place: a long transcript is drawn once.
 */
export function Transcript(props: {
  readonly laid: FollowAlong
  /** Null: there is nothing to wind. */
  readonly audio: RefObject<HTMLAudioElement | null> | null
}) {
  const { laid, audio } = props
  const root = useRef<HTMLDivElement>(null)
  useLitMark(laid, audio, root)
  const wind = (index: number) => {
    const mark = laid.marks[index]
    const player = audio?.current
    if (mark === undefined || !player) return
    player.currentTime = mark.start
    void player.play().catch(() => {})
  }
  const step = (event: KeyboardEvent) => {
    const at = markOf(event.target)
    if (at === null) return
    const last = laid.marks.length - 1
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: last }[event.key]
    if (to !== undefined) focusMark(root.current, Math.min(last, Math.max(0, to)))
    else if (event.key === 'Enter' || event.key === ' ') wind(at)
    else return
    event.preventDefault()
  }
  const click = ({ target }: MouseEvent) => {
    const at = markOf(target)
    if (at === null) return
    focusMark(root.current, at)
    wind(at)
  }
  const turns = useMemo(() => turnsOf(laid, audio !== null), [laid, audio])
  return h(
    'div',
    {
      ref: root,
      class: 'play-transcript',
      role: 'group',
      'aria-label': 'Transcript',
      onClick: click,
      onKeyDown: step,
    },
    turns,
  )
}

function turnsOf({ turns, marks }: FollowAlong, winds: boolean) {
  if (turns.length === 0) return h('p', { class: 'quiet' }, 'No speech detected.')
  const timed = marks.length > 0 && turns.length > 1
  return turns.map(({ who, start, pieces }, index) =>
    h(
      'p',
      { class: 'play-turn', key: index },
      who === null && !timed
        ? null
        : h('span', { class: 'play-who' }, who ?? '', ' ', h('span', { class: 'quiet' }, clockTime(start))),
      h(
        'span',
        { class: 'play-said' },
        pieces.map(({ text, mark }) =>
          mark === null || !winds
            ? text
            : h(
                'span',
                { class: 'play-mark', role: 'button', tabindex: mark === 0 ? 0 : -1, 'data-mark': mark },
                text,
              ),
        ),
      ),
    ),
  )
}

/** Highlights the mark being played, at every frame. */
function useLitMark(
  { marks }: FollowAlong,
  audio: RefObject<HTMLAudioElement | null> | null,
  root: RefObject<HTMLDivElement | null>,
): void {
  useEffect(() => {
    const player = audio?.current
    const container = root.current
    if (!player || !container || marks.length === 0) return
    const elements = [...container.querySelectorAll<HTMLElement>('[data-mark]')]
    const byMark = new Map(elements.map((element) => [Number(element.dataset.mark), element]))
    let lit: HTMLElement | null = null
    let frame = 0
    const light = () => {
      const at = markAt(marks, player.currentTime)
      const element = at === null ? null : (byMark.get(at) ?? null)
      if (element !== lit) {
        lit?.classList.remove('play-now')
        element?.classList.add('play-now')
        if (element) keepInSight(container, element)
        lit = element
      }
      frame = player.paused || player.ended ? 0 : requestAnimationFrame(light)
    }
    const begin = () => {
      if (frame === 0) frame = requestAnimationFrame(light)
    }
    for (const event of ['play', 'seeked', 'timeupdate']) player.addEventListener(event, begin)
    return () => {
      cancelAnimationFrame(frame)
      for (const event of ['play', 'seeked', 'timeupdate']) player.removeEventListener(event, begin)
      lit?.classList.remove('play-now')
    }
  }, [marks, audio])
}

/** Scrolls the transcript alone, never the page. */
function keepInSight(container: HTMLElement, element: HTMLElement): void {
  const { top, bottom } = element.getBoundingClientRect()
  const frame = container.getBoundingClientRect()
  if (top < frame.top || bottom > frame.bottom) container.scrollTop += top - frame.top - frame.height / 3
}

function markOf(target: EventTarget | null): number | null {
  const element = target instanceof Element ? target.closest<HTMLElement>('[data-mark]') : null
  return element === null ? null : Number(element.dataset.mark)
}

/** One word alone can be reached by Tab: the last one that had the focus. */
function focusMark(container: HTMLElement | null, index: number): void {
  const element = container?.querySelector<HTMLElement>(`[data-mark="${index}"]`)
  if (!element) return
  container?.querySelector('[data-mark][tabindex="0"]')?.setAttribute('tabindex', '-1')
  element.setAttribute('tabindex', '0')
  element.focus()
}

/** A word, or a whole segment where words have no times, highlighted while it plays. */
interface Mark {
  readonly text: string
  /** Seconds from the beginning of the audio. */
  readonly start: number
  readonly end: number
}

/** One speaker's words until the next speaker, or one segment. */
interface Turn {
  /** Null where speakers were not told apart. */
  readonly who: string | null
  readonly start: number
  /** Texts in their order; those with a number are that mark, the others are between marks. */
  readonly pieces: readonly Piece[]
}

interface Piece {
  readonly text: string
  readonly mark: number | null
}

/** A transcript laid out for reading along. */
export interface FollowAlong {
  /** In the order of their beginnings. */
  readonly marks: readonly Mark[]
  readonly turns: readonly Turn[]
}

/** How long a mark stays lit after its end when no other begins, in seconds: or it would flicker between words. */
const LINGER_SECONDS = 0.4

type Passage = (Segment | Word) & Mark

/**
 * Lays a transcript out. Punctuation and spaces are those of the content, as far as the words are found in it in their
 * order; where they are not, a space is put between them.
 */
export function followAlong(
  content: string,
  words: readonly Word[],
  segments: readonly Segment[],
): FollowAlong {
  const timed: readonly Passage[] =
    words.length > 0
      ? words.map((word) => ({ ...word, text: word.word }))
      : segments.map((segment) => ({ ...segment, text: segment.text.trim() }))
  const marks = timed.filter(({ text }) => text !== '').toSorted((one, other) => one.start - other.start)
  if (marks.length === 0) {
    const pieces = content === '' ? [] : [{ text: content, mark: null }]
    return { marks, turns: pieces.length === 0 ? [] : [{ who: null, start: 0, pieces }] }
  }
  const gaps = gapsOf(content, marks)
  const breaks = words.length > 0 ? breaksOf(marks, segments) : new Set(marks.keys())
  const turns: Turn[] = []
  let pieces: Piece[] = []
  for (const [index, mark] of marks.entries()) {
    const begins = index === 0 || breaks.has(index) || voiceOf(mark) !== voiceOf(marks[index - 1])
    if (begins) {
      pieces = []
      turns.push({ who: voiceOf(mark), start: mark.start, pieces })
    }
    const gap = begins ? gaps[index]?.trimStart() : gaps[index]
    if (gap) pieces.push({ text: gap, mark: null })
    pieces.push({ text: mark.text, mark: index })
    // Punctuation that ends a sentence belongs to its turn.
    const rest = gaps[index + 1] ?? ''
    const closing = /^[^\s\p{Ps}\p{Pi}¿¡]+(?=\s|$)/u.exec(rest)?.[0] ?? ''
    if (closing !== '') {
      pieces.push({ text: closing, mark: null })
      gaps[index + 1] = rest.slice(closing.length)
    }
  }
  return { marks, turns }
}

/**
 * The mark being played at a moment.
 *
 * @param marks in the order of their beginnings
 * @returns its index; null before the first, and in a silence
 */
export function markAt(marks: readonly Mark[], seconds: number): number | null {
  let low = 0
  let high = marks.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((marks[middle]?.start ?? Infinity) <= seconds) low = middle + 1
    else high = middle
  }
  const mark = marks[low - 1]
  return mark !== undefined && seconds < mark.end + LINGER_SECONDS ? low - 1 : null
}

/** How far ahead to search for a word, in characters: a match further away is another occurrence. */
const REACH = 40

/** The text before each mark and after the last one: one more than there are marks. */
function gapsOf(content: string, marks: readonly Mark[]): string[] {
  const gaps: string[] = []
  let from = 0
  let reach = REACH
  for (const [index, { text }] of marks.entries()) {
    const at = content.indexOf(text, from)
    const found = at >= 0 && at - from <= reach
    gaps.push(found ? betweenWords(content.slice(from, at), index) : betweenWords(null, index))
    // Words that are written otherwise in the content have to be passed over.
    reach = found ? REACH : reach + 2 * text.length
    if (found) from = at + text.length
  }
  const rest = content.slice(from)
  return [...gaps, isWordless(rest) ? rest : '']
}

/** A gap that contains words contains those that were not found. */
function betweenWords(gap: string | null, index: number): string {
  return gap !== null && isWordless(gap) ? gap : index === 0 ? '' : ' '
}

function isWordless(text: string): boolean {
  return !/[\p{L}\p{N}]/u.test(text)
}

/** Where words go on in the next segment. */
function breaksOf(marks: readonly Mark[], segments: readonly Segment[]): ReadonlySet<number> {
  const starts = segments.map(({ start }) => start).toSorted((one, other) => one - other)
  const breaks = new Set<number>()
  let index = 0
  for (const start of starts.slice(1)) {
    while (index < marks.length && (marks[index]?.start ?? 0) < start - 0.001) index++
    breaks.add(index)
  }
  return breaks
}

function voiceOf(mark: Passage | undefined): string | null {
  const speaker = mark?.speaker?.replace(/^speaker_(\d+)$/, (_, number) => `Speaker ${Number(number) + 1}`)
  const channel = mark?.channel === undefined ? null : `channel ${mark.channel + 1}`
  if (speaker === undefined) return channel === null ? null : `Channel ${channel.slice(8)}`
  return channel === null ? speaker : `${speaker}, ${channel}`
}

/** Plays audio that lies in the page. */
export function Player(props: {
  readonly src: string
  readonly label: string
  readonly audio: RefObject<HTMLAudioElement | null>
}) {
  const { src, label, audio } = props
  const [broken, setBroken] = useState(false)
  useEffect(() => {
    setBroken(false)
    const player = audio.current
    if (player) return findDuration(player)
  }, [src])
  return h(
    'div',
    { class: 'play-player' },
    h('audio', {
      ref: audio,
      src,
      controls: true,
      preload: 'metadata',
      'aria-label': label,
      onError: () => setBroken(true),
    }),
    broken
      ? h(Note, { tone: 'warn' }, 'Your browser can’t play this format. Download the file to listen to it.')
      : null,
  )
}

/** Recordings of a browser have no duration until they are sought to the end, and cannot be sought before. */
function findDuration(player: HTMLAudioElement): () => void {
  const ended = () => {
    player.removeEventListener('durationchange', ended)
    player.currentTime = 0
  }
  const known = () => {
    if (player.duration !== Number.POSITIVE_INFINITY) return
    player.addEventListener('durationchange', ended)
    player.currentTime = 86_400
  }
  player.addEventListener('loadedmetadata', known)
  return () => {
    player.removeEventListener('loadedmetadata', known)
    player.removeEventListener('durationchange', ended)
  }
}

/** Facts about a finished call: who served it, its cost, and its warnings. */
export function ResultFacts(props: {
  readonly workspace: string
  readonly facts: CallFacts
  /** From the first byte to the last, as the page saw it. */
  readonly tookMs: number
  readonly more?: readonly (readonly [string, string])[]
}) {
  const { workspace, facts, tookMs, more = [] } = props
  const { requestId, provider, model, version, purpose, purposeSource, warnings } = facts
  return h(
    'div',
    { class: 'stack' },
    warnings.length === 0 ? null : h(Warnings, { warnings }),
    h(Facts, {
      items: [
        ['Served by', h('span', { class: 'mono' }, provider ?? '–', '/', model ?? '–')],
        ['Took', milliseconds(tookMs)],
        ...more,
        ['Cost', orNone(facts.costUsd, usd)],
        ...shownUsage(facts.usage).map(([name, count]) => usageItem(name, count)),
        ['Route version', h('span', { class: 'mono' }, version ?? '–')],
        ...(purposeSource === null || purposeSource === 'none'
          ? []
          : [['Purpose', purpose === null ? purposeSource : `${purpose} (${purposeSource})`] as const]),
        ...(requestId === null
          ? []
          : [
              [
                'Request',
                h('a', { class: 'mono', href: requestPath(workspace, requestId) }, requestId),
              ] as const,
            ]),
      ],
    }),
  )
}

function Warnings({ warnings }: { readonly warnings: readonly string[] }) {
  return h(
    Note,
    { tone: 'warn' },
    h(
      'ul',
      null,
      warnings.map((line) => h('li', { key: line }, line)),
    ),
  )
}

/** Counted units, without repetitions of the audio's length. */
function shownUsage(usage: CallFacts['usage']): CallFacts['usage'] {
  const seconds = usage.find(([name]) => name === 'audio_seconds')?.[1]
  return usage.filter(
    ([name, count]) => count !== 0 && (name !== 'billable_audio_seconds' || count !== seconds),
  )
}

function usageItem(name: string, count: number): readonly [string, string] {
  const label = name.replaceAll('_', ' ')
  const value =
    name.endsWith('_seconds') && count >= 60 ? duration(count) : number(count, count % 1 === 0 ? 0 : 2)
  return [label.charAt(0).toUpperCase() + label.slice(1), value]
}

/** A URL of a blob for as long as it is shown; it is revoked with the next one, and with the view. */
export function useObjectUrl(blob: Blob | null): string | null {
  const [url, setUrl] = useState<string | null>(null)
  useEffect(() => {
    if (blob === null) return
    const made = URL.createObjectURL(blob)
    setUrl(made)
    return () => {
      URL.revokeObjectURL(made)
      setUrl(null)
    }
  }, [blob])
  return url
}

/** Seconds as a player shows them: 0:07, 12:34, 1:02:03. */
export function clockTime(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds))
  const two = (value: number) => String(value).padStart(2, '0')
  const hours = Math.floor(whole / 3600)
  const minutes = Math.floor(whole / 60) % 60
  return hours > 0 ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`
}

/** Runs of a view, of which there is one at a time: another begins, or the view is left, and it is aborted. */
export function useOneRun<Run>(idle: Run) {
  const [run, setRun] = useState(idle)
  const current = useRef<AbortController | null>(null)
  useEffect(() => () => current.current?.abort(), [])
  /** @returns what shows how the new run is, until it is aborted */
  const begin = () => {
    current.current?.abort()
    const abort = new AbortController()
    current.current = abort
    const { signal } = abort
    const show = (next: Run) => {
      if (!signal.aborted) setRun(next)
    }
    return { signal, show }
  }
  /** @returns false when there was none, or it was aborted before */
  const end = () => {
    if (current.current === null || current.current.signal.aborted) return false
    current.current.abort()
    return true
  }
  return { run, setRun, begin, end }
}
