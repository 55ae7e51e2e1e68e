import { useEffect, useRef, useState } from 'preact/hooks'
import { html } from '../../html.ts'
import { Button } from '../../parts/button.ts'
import { Note } from '../../parts/states.ts'
import { clock } from './clock.ts'
import { microphoneTrouble, recordingName, recordingType } from './recording-type.ts'

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
export function Recorder(props: { readonly disabled: boolean; readonly onFile: (file: File) => void }) {
  const { disabled, onFile } = props
  const [state, setState] = useState<State>({ at: 'idle' })
  const open = useRef<MediaStream | null>(null)
  const gone = useRef(false)
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
  if (state.at === 'recording') return html`<${Recording} ...${state} />`
  return html`<${Button} icon="mic" onClick=${begin} busy=${state.at === 'asking'} disabled=${disabled}>
      ${state.at === 'asking' ? 'Waiting for permission' : 'Record'}
    <//>
    ${state.at === 'refused' ? html`<${Note} tone="warn">${state.why}<//>` : null}`
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
  const meter = useRef<HTMLMeterElement>(null)
  useEffect(() => {
    const timer = setInterval(() => setSeconds((Date.now() - sinceMs) / 1_000), 250)
    return () => clearInterval(timer)
  }, [sinceMs])
  useEffect(() => followLevel(stream, meter), [stream])
  const stop = () => recorder.state !== 'inactive' && recorder.stop()
  return html`<div class="play-recording" role="group" aria-label="Recording">
    <${Button} kind="danger" icon="stop" onClick=${stop}>Stop<//>
    <span class="play-recording-time">${clock(seconds)}</span>
    <meter ref=${meter} class="play-level" min="0" max="1" value="0" aria-label="Microphone level"></meter>
    <span class="hidden" role="status">Recording</span>
  </div>`
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
