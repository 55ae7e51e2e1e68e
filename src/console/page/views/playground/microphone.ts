import type { MicrophonePiece } from './microphone-worklet.ts'

/** Sample rate of recognizers; the browser resamples to it where it can. */
const RATE = 16_000

/** An open microphone. */
export interface Microphone {
  readonly stream: MediaStream
  /** Hz. */
  readonly sampleRate: number
  /** Stops handing over audio. */
  close(): void
}

/**
 * Opens the microphone.
 *
 * @param onPiece  is handed what it hears, 50 ms at a time
 * @param onUnplug it is gone
 * @throws DOMException as `getUserMedia`; `NotSupportedError` where there is no microphone to be had at all
 */
export async function openMicrophone(
  onPiece: (piece: MicrophonePiece) => void,
  onUnplug: () => void,
): Promise<Microphone> {
  if (!navigator.mediaDevices || typeof AudioWorkletNode === 'undefined')
    throw new DOMException('', 'NotSupportedError')
  // Browsers' suppression of noise and echo is made for calls: it cuts quiet speech and steady tones.
  const audio = { channelCount: 1, echoCancellation: false, noiseSuppression: false }
  const stream = await navigator.mediaDevices.getUserMedia({ audio })
  let context: AudioContext | null = null
  let node: AudioWorkletNode | null = null
  const close = () => {
    // Pieces are on their way from the audio thread, and more come until the context is closed.
    if (node !== null) node.port.onmessage = null
    for (const track of stream.getTracks()) track.stop()
    if (context !== null && context.state !== 'closed') void context.close()
  }
  try {
    const { source, context: opened } = sourceOf(stream)
    context = opened
    await opened.audioWorklet.addModule(new URL('microphone-worklet.ts', import.meta.url))
    node = new AudioWorkletNode(opened, 'microphone', { channelCount: 1, channelCountMode: 'explicit' })
    node.port.onmessage = ({ data }: MessageEvent<MicrophonePiece>) => onPiece(data)
    // It hands nothing on, but only what leads to the speaker is worked on everywhere.
    source.connect(node).connect(opened.destination)
    for (const track of stream.getTracks()) track.onended = onUnplug
    return { stream, sampleRate: opened.sampleRate, close }
  } catch (thrown) {
    close()
    throw thrown
  }
}

/** Firefox resamples no microphone: there the rate is that of the machine. */
function sourceOf(stream: MediaStream) {
  const context = new AudioContext({ sampleRate: RATE })
  try {
    return { context, source: context.createMediaStreamSource(stream) }
  } catch {
    void context.close()
    const plain = new AudioContext()
    return { context: plain, source: plain.createMediaStreamSource(stream) }
  }
}
