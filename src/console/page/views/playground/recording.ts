import { useEffect, useId, useRef, useState } from 'preact/hooks'
import { Button, Icon } from '../../components/button.ts'

import { Note } from '../../components/states.ts'
import { bytes } from '../../format.ts'
import { h } from '../../h.ts'
import { useLeaveGuard } from '../../router.ts'
import { clockTime, Player } from './transcript.ts'

const ACCEPT = 'audio/*,video/mp4,video/webm,.mp3,.mp4,.m4a,.wav,.webm,.ogg,.oga,.opus,.flac'

/** Where the audio comes from: dropped, picked or recorded. It stays in the page until it is sent. */
export function Source(props: {
  readonly file: File | null
  readonly url: string | null
  /** Null: not known. */
  readonly maxBytes: number | null
  readonly audio: { current: HTMLAudioElement | null }
  /** A call is under way: the file is not changed. */
  readonly locked: boolean
  readonly onFile: (file: File | null) => void
}) {
  const { file, url, maxBytes, audio, locked, onFile } = props
  useStrayDrops()
  return h(
    'div',
    { class: 'stack stack-tight' },
    file === null
      ? h(DropZone, { onFile })
      : h(
          'div',
          { class: 'play-file' },
          h(
            'div',
            { class: 'play-file-name' },
            h('strong', null, file.name),
            h('span', { class: 'quiet nowrap' }, bytes(file.size)),
          ),
          h(
            Button,
            { small: true, icon: 'close', onClick: () => onFile(null), disabled: locked },
            'Change file',
          ),
        ),
    file !== null && url !== null ? h(Player, { src: url, label: file.name, audio }) : null,
    file !== null && maxBytes !== null && file.size > maxBytes
      ? h(
          Note,
          { tone: 'warn' },
          'Larger than the limit of ',
          bytes(maxBytes),
          '; it would be rejected. Cut or compress it: mp3 and webm are about a tenth of the size of wav.',
        )
      : null,
    file === null ? h('div', { class: 'row' }, h(Recorder, { disabled: locked, onFile })) : null,
  )
}

function DropZone({ onFile }: { readonly onFile: (file: File) => void }) {
  const id = useId()
  const [over, setOver] = useState(false)
  /** Entering a child leaves its parent: only the last one to be left counts. */
  const depth = useRef(0)
  const enter = (step: 1 | -1) => (event: DragEvent) => {
    event.preventDefault()
    depth.current += step
    setOver(depth.current > 0)
  }
  const drop = (event: DragEvent) => {
    event.preventDefault()
    depth.current = 0
    setOver(false)
    const [file] = event.dataTransfer?.files ?? []
    if (file) onFile(file)
  }
  const pick = (event: Event) => {
    const [file] = (event.currentTarget as HTMLInputElement).files ?? []
    if (file) onFile(file)
  }
  return h(
    'label',
    {
      class: over ? 'play-drop play-drop-over' : 'play-drop',
      for: id,
      onDragEnter: enter(1),
      onDragLeave: enter(-1),
      onDragOver: (event: DragEvent) => event.preventDefault(),
      onDrop: drop,
    },
    h('input', { id, class: 'hidden', type: 'file', accept: ACCEPT, onChange: pick }),
    h(Icon, { name: 'upload' }),
    h(
      'span',
      null,
      h('strong', null, over ? 'Drop it here' : 'Drop an audio file, or choose one'),
      h(
        'span',
        { class: 'play-drop-hint' },
        'mp3, mp4, m4a, wav, webm, ogg or flac. Nothing is uploaded until you press Transcribe.',
      ),
    ),
  )
}

/** A file that is dropped beside the zone would make the browser leave the page. */
function useStrayDrops(): void {
  useEffect(() => {
    const keep = (event: DragEvent) => {
      if (event.dataTransfer?.types.includes('Files')) event.preventDefault()
    }
    addEventListener('dragover', keep)
    addEventListener('drop', keep)
    return () => {
      removeEventListener('dragover', keep)
      removeEventListener('drop', keep)
    }
  }, [])
}

type State =
  | { readonly at: 'idle' }
  | { readonly at: 'asking' }
  | {
      readonly at: 'recording'
      readonly stream: MediaStream
      readonly recorder: MediaRecorder
      readonly sinceMs: number
    }
  | { readonly at: 'refused'; readonly why: string }

/** Records from the microphone, which is open while it records and at no other time, and hands over a file. */
function Recorder(props: { readonly disabled: boolean; readonly onFile: (file: File) => void }) {
  const { disabled, onFile } = props
  const [state, setState] = useState<State>({ at: 'idle' })
  const open = useRef<MediaStream | null>(null)
  const gone = useRef(false)
  useLeaveGuard(state.at === 'recording', 'Leave and drop the recording?')
  useEffect(
    () => () => {
      gone.current = true
      release(open.current)
    },
    [],
  )
  const begin = async () => {
    setState({ at: 'asking' })
    try {
      const type = typeof MediaRecorder === 'undefined' ? null : recordingType(MediaRecorder.isTypeSupported)
      if (type === null || !navigator.mediaDevices) throw new DOMException('', 'NotSupportedError')
      const stream = await navigator.mediaDevices.getUserMedia({ audio: true })
      open.current = stream
      if (gone.current) return release(stream)
      const recorder = new MediaRecorder(stream, { mimeType: type })
      collect(recorder, type, (file) => {
        release(stream)
        if (gone.current) return
        setState({ at: 'idle' })
        if (file) onFile(file)
      })
      recorder.start(1_000)
      setState({ at: 'recording', stream, recorder, sinceMs: Date.now() })
    } catch (thrown) {
      release(open.current)
      setState({ at: 'refused', why: microphoneTrouble(thrown instanceof DOMException ? thrown.name : '') })
    }
  }
  if (state.at === 'recording') return h(Recording, state)
  return [
    h(
      Button,
      { icon: 'mic', onClick: begin, busy: state.at === 'asking', disabled },
      state.at === 'asking' ? 'Waiting for permission' : 'Record',
    ),
    state.at === 'refused' ? h(Note, { tone: 'warn' }, state.why) : null,
  ]
}

/** Calls back once, when the recorder has stopped; null when nothing was recorded. */
function collect(recorder: MediaRecorder, type: string, onEnd: (file: File | null) => void): void {
  const chunks: Blob[] = []
  recorder.ondataavailable = ({ data }) => {
    if (data.size > 0) chunks.push(data)
  }
  recorder.onstop = () => {
    const [bare = type] = type.split(';')
    onEnd(chunks.length === 0 ? null : new File(chunks, recordingName(type, new Date()), { type: bare }))
  }
}

function release(stream: MediaStream | null): void {
  for (const track of stream?.getTracks() ?? []) track.stop()
}

function Recording(props: {
  readonly stream: MediaStream
  readonly recorder: MediaRecorder
  readonly sinceMs: number
}) {
  const { stream, recorder, sinceMs } = props
  const [seconds, setSeconds] = useState(0)
  useEffect(() => {
    const timer = setInterval(() => setSeconds((Date.now() - sinceMs) / 1_000), 250)
    return () => clearInterval(timer)
  }, [sinceMs])
  const stop = () => recorder.state !== 'inactive' && recorder.stop()
  return h(
    'div',
    { class: 'play-recording', role: 'group', 'aria-label': 'Recording' },
    h(Button, { kind: 'danger', icon: 'stop', onClick: stop }, 'Stop'),
    h('span', { class: 'play-recording-time' }, clockTime(seconds)),
    h(LevelMeter, { stream }),
    h('span', { class: 'hidden', role: 'status' }, 'Recording'),
  )
}

/** How loud it is that the microphone hears. */
export function LevelMeter({ stream }: { readonly stream: MediaStream }) {
  const meter = useRef<HTMLMeterElement>(null)
  useEffect(() => followLevel(stream, meter), [stream])
  return h('meter', {
    ref: meter,
    class: 'play-level',
    min: '0',
    max: '1',
    value: '0',
    'aria-label': 'Microphone level',
  })
}

/** How loud it is, from 0 to 1 over 60 dB, at every frame. */
function followLevel(stream: MediaStream, meter: { readonly current: HTMLMeterElement | null }): () => void {
  const context = new AudioContext()
  const analyser = context.createAnalyser()
  analyser.fftSize = 1024
  context.createMediaStreamSource(stream).connect(analyser)
  const samples = new Float32Array(analyser.fftSize)
  let frame = 0
  const look = () => {
    analyser.getFloatTimeDomainData(samples)
    const power = samples.reduce((sum, sample) => sum + sample * sample, 0) / samples.length
    const decibels = 10 * Math.log10(power + 1e-9)
    if (meter.current) meter.current.value = Math.min(1, Math.max(0, 1 + decibels / 60))
    frame = requestAnimationFrame(look)
  }
  look()
  return () => {
    cancelAnimationFrame(frame)
    void context.close()
  }
}

/** Recording formats that Larkway accepts, best first: Chromium and Firefox write webm, Safari mp4. */
const TYPES = ['audio/webm;codecs=opus', 'audio/webm', 'audio/mp4', 'audio/ogg;codecs=opus'] as const

const EXTENSIONS: Readonly<Record<string, string>> = { webm: 'webm', mp4: 'm4a', ogg: 'ogg' }

/** The media type to record in; null when the browser writes none that would be accepted. */
export function recordingType(isSupported: (type: string) => boolean): string | null {
  return TYPES.find(isSupported) ?? null
}

/** The name of the file that a recording is sent as. */
export function recordingName(mediaType: string, at: Date): string {
  const [, subtype = ''] = /^\w+\/(\w+)/.exec(mediaType) ?? []
  const stamp = at.toISOString().slice(0, 19).replaceAll(/[-:]/g, '').replace('T', '-')
  return `recording-${stamp}.${EXTENSIONS[subtype] ?? 'webm'}`
}

/**
 * Advice for a microphone that does not open.
 *
 * @param name    of the DOMException
 * @param instead what else can be done
 */
export function microphoneTrouble(name: string, instead = 'drop a file instead'): string {
  switch (name) {
    case 'NotAllowedError':
    case 'SecurityError':
      return `The browser refused the microphone. Allow it for this site beside the address, or ${instead}.`
    case 'NotFoundError':
    case 'OverconstrainedError':
      return `No microphone was found. Connect one and record again, or ${instead}.`
    case 'NotReadableError':
    case 'AbortError':
      return `The microphone is in use by another program. Close that and record again, or ${instead}.`
    default:
      return `The microphone needs https or localhost. Open the console there, or ${instead}.`
  }
}
