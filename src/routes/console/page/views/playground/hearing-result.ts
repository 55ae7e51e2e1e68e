import type { RefObject } from 'preact'
import { useMemo, useState } from 'preact/hooks'
import { duration } from '../../format.ts'
import { html } from '../../html.ts'
import { Code } from '../../parts/code.ts'
import { Copy } from '../../parts/copy.ts'
import { Section } from '../../parts/page-head.ts'
import { Tabs } from '../../parts/tabs.ts'
import { followAlong } from './follow-along.ts'
import type { Heard } from './heard.ts'
import { ResultFacts } from './result-facts.ts'
import { Transcript } from './transcript.ts'

/** A transcript: to read along with the audio, as it came, and what it cost. */
export function HearingResult(props: {
  readonly workspace: string
  readonly heard: Heard
  readonly tookMs: number
  readonly audio: RefObject<HTMLAudioElement | null>
}) {
  const { workspace, heard, tookMs, audio } = props
  const [tab, setTab] = useState('transcript')
  const rendered = /^(1\r?\n|WEBVTT)/.test(heard.content) && heard.segments.length === 0
  const laid = useMemo(() => followAlong(heard.content, heard.words, heard.segments), [heard])
  const tabs = [
    { id: 'transcript', label: rendered ? 'Subtitles' : 'Transcript' },
    { id: 'raw', label: 'Raw response' },
  ]
  const winds = laid.marks.length > 0
  return html`<${Section}
    title="Result"
    actions=${html`<${Copy} text=${heard.content} label="Copy transcript">Copy transcript<//>`}
  >
    <${Tabs} label="Result" tabs=${tabs} chosen=${tab} onChoose=${setTab}>
      ${
        tab === 'raw'
          ? html`<${Code} title="Response" text=${heard.raw} tall />`
          : rendered
            ? html`<${Code} title="Subtitles" text=${heard.content} tall />`
            : html`<${Transcript} laid=${laid} audio=${winds ? audio : null} />
                <p class="small quiet">
                  ${
                    winds
                      ? `Click a ${heard.words.length > 0 ? 'word' : 'segment'} to jump to it.`
                      : 'Request word timestamps to follow along during playback.'
                  }
                </p>`
      }
    <//>
    <${ResultFacts} workspace=${workspace} facts=${heard} tookMs=${tookMs} more=${aboutAudio(heard)} />
  <//>`
}

function aboutAudio({ durationSeconds, language }: Heard): readonly (readonly [string, string])[] {
  return [
    ...(durationSeconds === null ? [] : [['Audio', duration(durationSeconds)] as const]),
    ...(language === null ? [] : [['Language', language] as const]),
  ]
}
