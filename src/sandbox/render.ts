import type { Transcript } from './transcript.ts'

export const TRANSCRIPT_FORMATS = ['json', 'text', 'verbose_json', 'diarized_json', 'srt', 'vtt'] as const
export type TranscriptFormat = (typeof TRANSCRIPT_FORMATS)[number]

export interface Rendering {
  readonly task: 'transcribe' | 'translate'
  readonly format: TranscriptFormat
  /** Asked-for `timestamp_granularities[]`; none means segments. */
  readonly granularities: readonly string[]
  /** The `x_sandbox` member of JSON answers. */
  readonly facts: Readonly<Record<string, unknown>>
}

/** A transcript in OpenAI's answer of one format. */
export function render(transcript: Transcript, rendering: Rendering): { contentType: string; body: string } {
  const { format, facts } = rendering
  if (format === 'text') return { contentType: 'text/plain; charset=utf-8', body: `${transcript.text}\n` }
  if (format === 'srt') return { contentType: 'text/plain; charset=utf-8', body: cues(transcript, ',', true) }
  if (format === 'vtt') {
    return { contentType: 'text/vtt; charset=utf-8', body: `WEBVTT\n\n${cues(transcript, '.', false)}` }
  }
  const usage = { type: 'duration', seconds: Math.ceil(transcript.durationSeconds ?? 0) }
  const body = { ...jsonOf(transcript, rendering), usage, x_sandbox: facts }
  return { contentType: 'application/json', body: JSON.stringify(body) }
}

function jsonOf(
  { text, durationSeconds, segments, words }: Transcript,
  { task, format, granularities }: Rendering,
) {
  const duration = durationSeconds === null ? {} : { duration: durationSeconds }
  if (format === 'json') return { text }
  if (format === 'diarized_json') {
    const said = segments.map((segment, index) => ({
      type: 'transcript.text.segment',
      id: `seg_${index}`,
      ...segment,
    }))
    return { task, ...duration, text, segments: said }
  }
  const timed = segments.map(({ speaker: _, ...segment }, id) => ({ id, seek: 0, ...segment, tokens: [] }))
  const wantsSegments = granularities.length === 0 || granularities.includes('segment')
  return {
    task,
    language: 'english',
    ...duration,
    text,
    ...(wantsSegments ? { segments: timed } : {}),
    ...(granularities.includes('word') ? { words } : {}),
  }
}

/** Subtitle cues; SubRip numbers them and has a comma before the milliseconds. */
function cues({ segments }: Transcript, point: ',' | '.', numbered: boolean): string {
  return segments
    .map(({ start, end, text }, index) => {
      const times = `${clock(start, point)} --> ${clock(end, point)}`
      return `${numbered ? `${index + 1}\n` : ''}${times}\n${text}\n\n`
    })
    .join('')
}

function clock(seconds: number, point: string): string {
  const milliseconds = Math.round(seconds * 1000)
  const [hours, minutes, rest] = [
    milliseconds / 3_600_000,
    (milliseconds / 60_000) % 60,
    (milliseconds / 1000) % 60,
  ]
  const [h, m, s] = [hours, minutes, rest].map((part) => String(Math.floor(part)).padStart(2, '0'))
  return `${h}:${m}:${s}${point}${String(milliseconds % 1000).padStart(3, '0')}`
}
