import { useRef, useState } from 'preact/hooks'
import { type ApiError, toApiError } from '../../api.ts'
import { Button } from '../../components/button.ts'
import { TextInput } from '../../components/field.ts'
import { Section } from '../../components/page-head.ts'
import { Progress } from '../../components/progress.ts'
import { Note } from '../../components/states.ts'
import { bytes, plural } from '../../format.ts'
import { h } from '../../h.ts'
import { type AppKeys, CallFailure, callV1 } from './calls.ts'
import { Options, PLAIN_SPEECH, Selectors, SPEECH_PATH, type SpeechOptions, speechBody } from './options.ts'
import { type CallFacts, headerFacts } from './reply.ts'
import { SnippetsView, speechSnippets } from './snippets.ts'
import { Player, ResultFacts, useObjectUrl, useOneRun } from './transcript.ts'

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

/** Speech formats that can be transcribed again. */
const TRANSCRIBABLE: ReadonlySet<string> = new Set(['mp3', 'wav', 'ogg', 'flac', 'm4a', 'webm'])

/** Speech: text, voice and options, and the audio. */
export function Speech(props: {
  readonly workspace: string
  readonly app: string
  readonly keys: AppKeys
  readonly purposes: readonly string[]
  readonly voices: readonly string[]
  /** Transcribes the generated speech. */
  readonly onHandOver: (audio: File) => void
}) {
  const { workspace, app, keys, purposes, voices, onHandOver } = props
  const [options, setOptions] = useState<SpeechOptions>(PLAIN_SPEECH)
  const { run, speak, cancel } = useSpeech(keys, app)
  const change = (fields: Partial<SpeechOptions>) => setOptions((old) => ({ ...old, ...fields }))
  const extension = run.at === 'done' ? extensionOf(run.audio.type) : options.responseFormat.trim() || 'audio'
  const busy = run.at === 'waiting'
  const empty = options.input.trim() === ''
  return h(
    'div',
    { class: 'play' },
    h(
      'div',
      { class: 'play-source' },
      h(TextInput, {
        label: 'Text',
        rows: 6,
        hint: `${plural([...options.input].length, 'character')}, up to 100,000.`,
        value: options.input,
        onInput: (input: string) => change({ input }),
      }),
    ),
    h(Options, null, h(SpeechForm, { options, voices, purposes, onChange: change })),
    h(
      'div',
      { class: 'play-run stack' },
      h(
        'div',
        { class: 'actions' },
        h(
          Button,
          {
            kind: 'primary',
            icon: 'play',
            disabled: empty || app === '',
            busy,
            onClick: () => speak(options),
          },
          'Speak',
        ),
        empty ? h('span', { class: 'small quiet' }, 'Enter some text first.') : null,
      ),
      h('p', { class: 'hidden', role: 'status' }, SAID[run.at]),
      run.at === 'waiting' ? h(Receiving, { bytes: run.receivedBytes, onCancel: cancel }) : null,
      run.at === 'cancelled'
        ? h(Note, null, 'Cancelled. Work done by the provider by then may be charged.')
        : null,
      run.at === 'failed' ? h(CallFailure, { workspace, error: run.error }) : null,
      run.at === 'done' ? h(Spoken, { workspace, ...run, onHandOver }) : null,
      h(SnippetsView, { snippets: speechSnippets(location.origin, options, extension) }),
    ),
  )
}

function Receiving({ bytes: received, onCancel }: { readonly bytes: number; readonly onCancel: () => void }) {
  return h(
    'div',
    { class: 'play-progress' },
    h(Progress, {
      label: received === 0 ? 'Waiting for provider…' : 'Receiving audio',
      value: null,
      max: 1,
      text: received === 0 ? '' : bytes(received),
    }),
    h(Button, { small: true, icon: 'close', onClick: onCancel }, 'Cancel'),
  )
}

function SpeechForm(props: {
  readonly options: SpeechOptions
  readonly voices: readonly string[]
  readonly purposes: readonly string[]
  readonly onChange: (fields: Partial<SpeechOptions>) => void
}) {
  const { options, voices, purposes, onChange } = props
  return h(
    'div',
    { class: 'stack' },
    h(TextInput, {
      label: 'Voice',
      optional: true,
      hint:
        voices.length === 0 ? 'Leave empty for the provider’s default.' : 'The route’s voices are suggested.',
      suggestions: voices,
      maxLength: 256,
      value: options.voice,
      onInput: (voice: string) => onChange({ voice }),
    }),
    h(TextInput, {
      label: 'Response format',
      optional: true,
      hint: 'Passed to the provider unchanged.',
      suggestions: FORMATS,
      maxLength: 64,
      value: options.responseFormat,
      onInput: (responseFormat: string) => onChange({ responseFormat }),
    }),
    h(TextInput, {
      label: 'Speed',
      optional: true,
      hint: '1 is normal.',
      inputMode: 'decimal',
      width: 'short',
      value: options.speed,
      onInput: (speed: string) => onChange({ speed }),
    }),
    h(
      'details',
      { class: 'more' },
      h('summary', null, 'More options', options.purpose === '' && options.profile === null ? '' : ' (set)'),
      h(
        'div',
        { class: 'stack' },
        h(Selectors, { purpose: options.purpose, profile: options.profile, purposes, onChange }),
      ),
    ),
  )
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
  const transcribe = () => onHandOver(new File([audio], name, { type: audio.type }))
  return h(
    Section,
    {
      title: 'Result',
      actions:
        url === null
          ? null
          : [
              TRANSCRIBABLE.has(extension) ? h(Button, { onClick: transcribe }, 'Transcribe this') : null,
              h('a', { class: 'button button-plain', href: url, download: name }, 'Download ', name),
            ],
    },
    url === null ? null : h(Player, { src: url, label: 'Speech', audio: player }),
    h(ResultFacts, {
      workspace,
      facts,
      tookMs,
      more: [['Audio', `${bytes(audio.size)}, ${audio.type || 'of unknown type'}`]],
    }),
  )
}

function useSpeech(keys: AppKeys, app: string) {
  const { run, setRun, begin, end } = useOneRun<Run>({ at: 'idle' })
  const speak = async (options: SpeechOptions) => {
    const { signal, show } = begin()
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
    end()
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

const EXTENSIONS: Readonly<Record<string, string>> = {
  'audio/mpeg': 'mp3',
  'audio/mp3': 'mp3',
  'audio/wav': 'wav',
  'audio/x-wav': 'wav',
  'audio/wave': 'wav',
  'audio/ogg': 'ogg',
  'audio/opus': 'opus',
  'audio/flac': 'flac',
  'audio/aac': 'aac',
  'audio/mp4': 'm4a',
  'audio/webm': 'webm',
  'audio/pcm': 'pcm',
  'audio/l16': 'pcm',
}

/** File extension of a media type; `audio` if it is unknown. */
export function extensionOf(mediaType: string): string {
  const [bare = ''] = mediaType.toLowerCase().split(';')
  return EXTENSIONS[bare.trim()] ?? 'audio'
}
