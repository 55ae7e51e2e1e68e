import type { Segment } from '../../contracts/calls.ts'
import { trimEndWhere } from '../../contracts/trim.ts'

export interface RenderedTranscript {
  readonly body: string
  /** Value for `content-type`. */
  readonly contentType: string
}

interface Cue {
  readonly startMs: number
  readonly endMs: number
  /** At least one; none is blank. */
  readonly lines: readonly string[]
  readonly speaker: string | null
}

const CONTENT_TYPES = {
  text: 'text/plain; charset=utf-8',
  srt: 'application/x-subrip; charset=utf-8',
  vtt: 'text/vtt; charset=utf-8',
}

/**
 * A transcript as plain text or subtitles. Segments without text make no cue; the others are put in the order
 * of their beginnings, which WebVTT demands, and every cue lasts at least a millisecond.
 *
 * @param transcript times in seconds; what is negative or no number counts as 0
 */
export function renderTranscript(
  format: 'text' | 'srt' | 'vtt',
  transcript: { readonly text: string; readonly segments: readonly Segment[] },
): RenderedTranscript {
  const contentType = CONTENT_TYPES[format]
  if (format === 'text') return { body: transcript.text, contentType }
  const cues = cuesOf(transcript.segments)
  return { body: format === 'srt' ? renderSrt(cues) : renderVtt(cues), contentType }
}

function cuesOf(segments: readonly Segment[]): Cue[] {
  return segments
    .map(({ start, end, text, speaker }) => {
      const startMs = milliseconds(start)
      return {
        startMs,
        endMs: Math.max(startMs + 1, milliseconds(end)),
        lines: textLines(text),
        speaker: textLines(speaker ?? '').join(' ') || null,
      }
    })
    .filter((cue) => cue.lines.length > 0)
    .sort((one, other) => one.startMs - other.startMs)
}

function milliseconds(seconds: number): number {
  return Number.isFinite(seconds) && seconds > 0 ? Math.round(seconds * 1000) : 0
}

/** Control characters except tabs end a line: no player shows them, and a blank line would end the cue. */
function textLines(text: string): string[] {
  return text
    .replaceAll('\t', ' ')
    .split(/[\p{Cc}\u2028\u2029]+/u)
    .map((line) => line.trim())
    .filter((line) => line !== '')
}

/**
 * SubRip has no escapes. An arrow in the text would make readers that search for it see a new cue, so it is shortened.
 */
function renderSrt(cues: readonly Cue[]): string {
  return cues
    .map(({ startMs, endMs, lines, speaker }, index) => {
      const voice = speaker === null ? '' : `${speaker}: `
      const text = shortenArrows(`${voice}${lines.join('\n')}`)
      return `${index + 1}\n${cueTime(startMs, ',')} --> ${cueTime(endMs, ',')}\n${text}\n`
    })
    .join('\n')
}

/** `--->` becomes `->`. */
function shortenArrows(text: string): string {
  const parts = text.split('>')
  const last = parts.pop()!
  return [...parts.map((part) => (part.endsWith('--') ? `${trimEndWhere(part, isDash)}-` : part)), last].join(
    '>',
  )
}

const isDash = (point: number): boolean => point === 0x2d

/** https://www.w3.org/TR/webvtt1 section 4.1 and 4.2; with `>` escaped no arrow is left in the text. */
function renderVtt(cues: readonly Cue[]): string {
  const blocks = cues.map(({ startMs, endMs, lines, speaker }) => {
    const voice = speaker === null ? '' : `<v ${escapeVtt(speaker)}>`
    return `${cueTime(startMs, '.')} --> ${cueTime(endMs, '.')}\n${voice}${escapeVtt(lines.join('\n'))}\n`
  })
  return ['WEBVTT\n', ...blocks].join('\n')
}

function escapeVtt(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}

/** `HH:MM:SS` and milliseconds behind `point`; hours grow beyond two digits when they must. */
function cueTime(totalMs: number, point: ',' | '.'): string {
  const pad = (value: number, digits = 2) => String(Math.floor(value)).padStart(digits, '0')
  const seconds = totalMs / 1000
  const minutes = seconds / 60
  return `${pad(minutes / 60)}:${pad(minutes % 60)}:${pad(seconds % 60)}${point}${pad(totalMs % 1000, 3)}`
}
