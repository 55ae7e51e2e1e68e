import { useEffect, useRef, useState } from 'preact/hooks'
import { type ApiError, toApiError } from '../../api-error.ts'
import { bytes, plural } from '../../format.ts'
import { html } from '../../html.ts'
import { Button } from '../../parts/button.ts'
import { TextInput } from '../../parts/field.ts'
import { Section } from '../../parts/page-head.ts'
import { Progress } from '../../parts/progress.ts'
import { Note } from '../../parts/states.ts'
import type { AppKeys } from './app-keys.ts'
import { CallFailure } from './call-failure.ts'
import { type CallFacts, headerFacts } from './heard.ts'
import { Selectors } from './hearing-form.ts'
import { useObjectUrl } from './object-url.ts'
import { PLAIN_SPEECH, SPEECH_PATH, type SpeechOptions, speechBody } from './options.ts'
import { Options } from './options-panel.ts'
import { Player } from './player.ts'
import { ResultFacts } from './result-facts.ts'
import { speechSnippets } from './snippets.ts'
import { SnippetsView } from './snippets-view.ts'
import { extensionOf } from './speech-type.ts'
import { callV1 } from './v1.ts'

type Run =
  | { readonly at: 'idle' }
  | { readonly at: 'waiting'; readonly receivedBytes: number }
  | { readonly at: 'cancelled' }
  | { readonly at: 'failed'; readonly error: ApiError }
  | { readonly at: 'done'; readonly audio: Blob; readonly facts: CallFacts; readonly tookMs: number }

/** How far it is, for who does not see it; failures speak for themselves. */
const SAID: Readonly<Record<Run['at'], string>> = {
  idle: '',
  waiting: 'Waiting for provider…',
  cancelled: 'Cancelled',
  failed: '',
  done: 'Done',
}

const FORMATS = ['mp3', 'wav', 'opus', 'flac', 'aac', 'pcm']

/** What transcription takes of what a provider may speak. */
const HEARD: ReadonlySet<string> = new Set(['mp3', 'wav', 'ogg', 'flac', 'm4a', 'webm'])

/** Speech: a text, a voice, and what was said. */
export function Speech(props: {
  readonly workspace: string
  readonly app: string
  readonly keys: AppKeys
  readonly purposes: readonly string[]
  readonly voices: readonly string[]
  /** Has what was spoken be heard. */
  readonly onHandOver: (audio: File) => void
}) {
  const { workspace, app, keys, purposes, voices, onHandOver } = props
  const [options, setOptions] = useState<SpeechOptions>(PLAIN_SPEECH)
  const { run, speak, cancel } = useSpeech(keys, app)
  const change = (fields: Partial<SpeechOptions>) => setOptions((old) => ({ ...old, ...fields }))
  const extension = run.at === 'done' ? extensionOf(run.audio.type) : options.responseFormat.trim() || 'audio'
  const busy = run.at === 'waiting'
  const empty = options.input.trim() === ''
  return html`<div class="play">
    <div class="play-source">
      <${TextInput}
        label="Text"
        rows=${6}
        hint=${`${plural([...options.input].length, 'character')}, up to 100,000.`}
        value=${options.input}
        onInput=${(input: string) => change({ input })}
      />
    </div>
    <${Options}>
      <${SpeechForm} options=${options} voices=${voices} purposes=${purposes} onChange=${change} />
    <//>
    <div class="play-run stack">
      <div class="actions">
        <${Button}
          kind="primary"
          icon="play"
          disabled=${empty || app === ''}
          busy=${busy}
          onClick=${() => speak(options)}
        >Speak<//>
        ${empty ? html`<span class="small quiet">Enter some text first.</span>` : null}
      </div>
      <p class="hidden" role="status">${SAID[run.at]}</p>
      ${
        run.at === 'waiting'
          ? html`<div class="play-progress">
              <${Progress}
                label=${run.receivedBytes === 0 ? 'Waiting for provider…' : 'Receiving audio'}
                value=${null}
                max=${1}
                text=${run.receivedBytes === 0 ? '' : bytes(run.receivedBytes)}
              />
              <${Button} small icon="close" onClick=${cancel}>Cancel<//>
            </div>`
          : null
      }
      ${
        run.at === 'cancelled'
          ? html`<${Note}>Cancelled. Work done by the provider by then may be charged.<//>`
          : null
      }
      ${run.at === 'failed' ? html`<${CallFailure} workspace=${workspace} error=${run.error} />` : null}
      ${run.at === 'done' ? html`<${Spoken} workspace=${workspace} ...${run} onHandOver=${onHandOver} />` : null}
      <${SnippetsView} snippets=${speechSnippets(location.origin, options, extension)} />
    </div>
  </div>`
}

function SpeechForm(props: {
  readonly options: SpeechOptions
  readonly voices: readonly string[]
  readonly purposes: readonly string[]
  readonly onChange: (fields: Partial<SpeechOptions>) => void
}) {
  const { options, voices, purposes, onChange } = props
  return html`<div class="stack">
    <${TextInput}
      label="Voice"
      optional
      hint=${voices.length === 0 ? 'Leave empty for the provider’s default.' : 'The route’s voices are suggested.'}
      suggestions=${voices}
      maxLength=${256}
      value=${options.voice}
      onInput=${(voice: string) => onChange({ voice })}
    />
    <${TextInput}
      label="Response format"
      optional
      hint="Passed to the provider unchanged."
      suggestions=${FORMATS}
      maxLength=${64}
      value=${options.responseFormat}
      onInput=${(responseFormat: string) => onChange({ responseFormat })}
    />
    <${TextInput}
      label="Speed"
      optional
      hint="1 is normal."
      inputMode="decimal"
      width="short"
      value=${options.speed}
      onInput=${(speed: string) => onChange({ speed })}
    />
    <details class="more">
      <summary>More options${options.purpose === '' && options.profile === null ? '' : ' (set)'}</summary>
      <div class="stack">
        <${Selectors}
          purpose=${options.purpose}
          profile=${options.profile}
          purposes=${purposes}
          onChange=${onChange}
        />
      </div>
    </details>
  </div>`
}

function Spoken(props: {
  readonly workspace: string
  readonly audio: Blob
  readonly facts: CallFacts
  readonly tookMs: number
  readonly onHandOver: (audio: File) => void
}) {
  const { workspace, audio, facts, tookMs, onHandOver } = props
  const url = useObjectUrl(audio)
  const player = useRef<HTMLAudioElement>(null)
  const extension = extensionOf(audio.type)
  const name = `speech.${extension}`
  const handOver = () => onHandOver(new File([audio], name, { type: audio.type }))
  return html`<${Section}
    title="Result"
    actions=${
      url === null
        ? null
        : html`${HEARD.has(extension) ? html`<${Button} onClick=${handOver}>Transcribe this<//>` : null}
            <a class="button button-plain" href=${url} download=${name}>Download ${name}</a>`
    }
  >
    ${url === null ? null : html`<${Player} src=${url} label="Speech" audio=${player} />`}
    <${ResultFacts}
      workspace=${workspace}
      facts=${facts}
      tookMs=${tookMs}
      more=${[['Audio', `${bytes(audio.size)}, ${audio.type || 'of unknown type'}`]]}
    />
  <//>`
}

function useSpeech(keys: AppKeys, app: string) {
  const [run, setRun] = useState<Run>({ at: 'idle' })
  const current = useRef<AbortController | null>(null)
  useEffect(() => () => current.current?.abort(), [])
  const speak = async (options: SpeechOptions) => {
    current.current?.abort()
    const abort = new AbortController()
    current.current = abort
    const { signal } = abort
    const show = (next: Run) => {
      if (!signal.aborted) setRun(next)
    }
    show({ at: 'waiting', receivedBytes: 0 })
    const beganMs = performance.now()
    try {
      const answer = await callV1(keys, app, SPEECH_PATH, {
        method: 'POST',
        headers: { 'content-type': 'application/json', accept: 'audio/*' },
        body: JSON.stringify(speechBody(options)),
        signal,
      })
      const audio = await received(answer, (receivedBytes) => show({ at: 'waiting', receivedBytes }))
      const facts = headerFacts((name) => answer.headers.get(name))
      show({ at: 'done', audio, facts, tookMs: performance.now() - beganMs })
    } catch (thrown) {
      show({ at: 'failed', error: toApiError(thrown) })
    }
  }
  const cancel = () => {
    current.current?.abort()
    setRun({ at: 'cancelled' })
  }
  return { run, speak, cancel }
}

/** The body as it arrives. */
async function received(answer: Response, onBytes: (bytes: number) => void): Promise<Blob> {
  const chunks: BlobPart[] = []
  let count = 0
  const reader = answer.body?.getReader()
  for (;;) {
    const next = await reader?.read()
    if (next === undefined || next.done) break
    chunks.push(next.value)
    count += next.value.byteLength
    onBytes(count)
  }
  return new Blob(chunks, { type: answer.headers.get('content-type') ?? '' })
}
