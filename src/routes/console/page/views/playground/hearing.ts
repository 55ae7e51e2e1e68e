import { useEffect, useRef, useState } from 'preact/hooks'
import { html } from '../../html.ts'
import { useLoad } from '../../load.ts'
import { Button } from '../../parts/button.ts'
import { useLeaveGuard } from '../../router.ts'
import type { Abilities } from './abilities.ts'
import type { AppKeys } from './app-keys.ts'
import { HearingForm } from './hearing-form.ts'
import { HearingProgress } from './hearing-progress.ts'
import { HearingResult } from './hearing-result.ts'
import { isUnderWay, type Run, useHearing } from './hearing-run.ts'
import { useObjectUrl } from './object-url.ts'
import { type HearingOptions, PLAIN_HEARING } from './options.ts'
import { Options } from './options-panel.ts'
import { hearingSnippets } from './snippets.ts'
import { SnippetsView } from './snippets-view.ts'
import { Source } from './source.ts'
import { callV1 } from './v1.ts'

/** How far it is, for who does not see it; failures speak for themselves. */
const SAID: Readonly<Record<Run['at'], string>> = {
  idle: '',
  sending: 'Uploading',
  working: 'Waiting for provider…',
  job: 'Job queued',
  cancelled: 'Cancelled',
  failed: '',
  done: 'Done',
}

/** Transcription: a file or a recording, its options, the way there and what came back. */
export function Hearing(props: {
  readonly workspace: string
  readonly app: string
  readonly keys: AppKeys
  /** Audio from elsewhere in the page, taken when it is another. */
  readonly handed: File | null
  readonly purposes: readonly string[]
  readonly abilities: Abilities | null
}) {
  const { workspace, app, keys, handed, purposes, abilities } = props
  const [file, setFile] = useState<File | null>(null)
  const [options, setOptions] = useState<HearingOptions>(PLAIN_HEARING)
  const audio = useRef<HTMLAudioElement>(null)
  const url = useObjectUrl(file)
  const maxBytes = useAudioLimit(keys, app, file !== null)
  const { run, send, cancel, clear } = useHearing(keys, app)
  const busy = isUnderWay(run) || run.at === 'job'
  useTimesWhereKept(abilities, setOptions)
  useLeaveGuard(isUnderWay(run), 'Leave and cancel the request?')
  const choose = (chosen: File | null) => {
    clear()
    setFile(chosen)
  }
  const place = useHanded(handed, file, (audio) => busy || choose(audio))
  const change = (fields: Partial<HearingOptions>) => setOptions((old) => ({ ...old, ...fields }))
  const snippets = hearingSnippets(location.origin, file?.name ?? 'audio.wav', options)
  return html`<div class="play">
    <div class="play-source">
      <${Source}
        file=${file}
        url=${url}
        maxBytes=${maxBytes}
        audio=${audio}
        locked=${busy}
        onFile=${choose}
      />
    </div>
    <${Options}>
      <${HearingForm} options=${options} purposes=${purposes} abilities=${abilities} onChange=${change} />
    <//>
    <div class="play-run stack" ref=${place}>
      <div class="actions">
        <${Button}
          kind="primary"
          icon="upload"
          disabled=${file === null || app === ''}
          busy=${busy}
          onClick=${() => file && send(file, options)}
        >
          ${options.asJob ? 'Send as a job' : 'Transcribe'}
        <//>
        ${file === null ? html`<span class="small quiet">Drop, choose or record audio first.</span>` : null}
      </div>
      <p class="hidden" role="status">${SAID[run.at]}</p>
      <${HearingProgress} workspace=${workspace} run=${run} onCancel=${cancel} />
      ${
        run.at === 'done'
          ? html`<${HearingResult} workspace=${workspace} heard=${run.heard} tookMs=${run.tookMs} audio=${audio} />`
          : null
      }
      <${SnippetsView} snippets=${snippets} />
    </div>
  </div>`
}

/** Takes what is handed over. What was pressed for that is not seen any more: the focus goes to what sends it. */
function useHanded(handed: File | null, file: File | null, take: (audio: File) => void) {
  const place = useRef<HTMLDivElement>(null)
  useEffect(() => {
    if (handed !== null) take(handed)
  }, [handed])
  useEffect(() => {
    if (file !== null && file === handed) place.current?.querySelector('button')?.focus()
  }, [file])
  return place
}

/** Times of words are asked for from the start where an entry keeps them: the transcript can be followed then. */
function useTimesWhereKept(
  abilities: Abilities | null,
  setOptions: (change: (old: HearingOptions) => HearingOptions) => void,
): void {
  const kept = abilities?.features?.has('word_timestamps') ?? false
  useEffect(() => {
    setOptions((old) => ({ ...old, timestamps: kept ? (old.timestamps ?? 'word') : null }))
  }, [kept])
}

/** How large audio may be, as the gateway says; asked for once there is something to send. */
function useAudioLimit(keys: AppKeys, app: string, wanted: boolean): number | null {
  const load = useLoad(
    async (signal) => {
      if (!wanted || app === '') return null
      const { limits } = (await (await callV1(keys, app, '/v1/me', { signal })).json()) as Me
      return limits?.max_audio_bytes ?? null
    },
    [app, wanted],
  )
  return load.value
}

interface Me {
  readonly limits?: { readonly max_audio_bytes?: number }
}
