import type { MessagePort } from 'node:worker_threads'
import type { LiveAudio } from '../../contracts/calls.ts'
import { type SpeechForm, UnreadableSpeech } from '../../contracts/speech-encoding.ts'
import { SpeechTranscoder } from '../media/speech-transcoder.ts'

/** One file, which lasts as long as its port is open. */
export interface EncodingTask {
  readonly port: MessagePort
  readonly source: LiveAudio | null
  readonly form: SpeechForm
}

/** The answer to each message: bytes of the file, or null for its end. */
export type EncodingAnswer = Uint8Array | { readonly unreadable: string } | { readonly failed: string }

/** A task of the worker threads, by its file and this name. Many of them share a thread, a message at a time each. */
export function encode({ port, source, form }: EncodingTask): Promise<void> {
  const transcoder = new SpeechTranscoder(source, form)
  let answered: Promise<void> = Promise.resolve()
  port.on('message', (bytes: Uint8Array | null) => {
    answered = answer(transcoder, bytes).then((reply) => {
      const moved = reply instanceof Uint8Array ? [reply.buffer as ArrayBuffer] : []
      port.postMessage(reply, moved)
    })
  })
  return new Promise((resolve) => {
    port.once('close', () => {
      void answered.finally(() => {
        transcoder.free()
        resolve()
      })
    })
  })
}

async function answer(transcoder: SpeechTranscoder, bytes: Uint8Array | null): Promise<EncodingAnswer> {
  try {
    const made = bytes === null ? await transcoder.end() : await transcoder.push(bytes)
    // A copy of its own: a message would take along all of the memory that this is a part of.
    return new Uint8Array(made)
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    return error instanceof UnreadableSpeech ? { unreadable: message } : { failed: message }
  }
}
