import { createHash } from 'node:crypto'
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Test } from 'tap'
import { type BehavingUpstream, startBehavingUpstream } from './behaving-upstream.ts'

/** What a model of the upstream does with a request. */
export interface SpeechBehaviour {
  readonly status?: number
  readonly contentType?: string
  /** Pieces of sound, each sent when the one before was taken. */
  readonly pieces?: readonly Uint8Array[]
  /** Waits before each piece but the first, with its number. */
  readonly before?: (piece: number) => Promise<unknown>
  /** Cuts the connection behind so many pieces. */
  readonly cutAfter?: number
}

export interface SpeechRequest {
  readonly model: string
  readonly voice: string
  readonly response_format?: string
  /** Bytes of sound that the socket has taken. */
  written: number
  state: 'answering' | 'finished' | 'left'
}

export type SpeechUpstream = BehavingUpstream<SpeechRequest, SpeechBehaviour>

/** A server that speaks as OpenAI's `POST /audio/speech` does: in chunks, as the sound is made. */
export function startSpeechUpstream(t: Pick<Test, 'teardown'>): Promise<SpeechUpstream> {
  return startBehavingUpstream(t, answer)
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  received: SpeechRequest[],
  behaviours: ReadonlyMap<string, SpeechBehaviour>,
): Promise<void> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  const asked = JSON.parse(Buffer.concat(chunks).toString()) as Pick<
    SpeechRequest,
    'model' | 'voice' | 'response_format'
  >
  const { model } = asked
  const speech: SpeechRequest = { ...asked, written: 0, state: 'answering' }
  received.push(speech)
  const closed = once(response, 'close')
  void closed.then(() => {
    speech.state = response.writableFinished ? 'finished' : 'left'
  })
  const {
    status = 200,
    contentType = 'audio/wav',
    pieces = [],
    before,
    cutAfter,
  } = behaviours.get(model) ?? {}
  response.writeHead(status, { 'content-type': contentType })
  response.flushHeaders()
  for (const [index, piece] of pieces.entries()) {
    if (index > 0) await before?.(index)
    if (index === cutAfter || response.destroyed) break
    if (!response.write(piece)) await Promise.race([drained(response), closed])
    speech.written += piece.length
  }
  if (cutAfter === undefined) response.end()
  else response.destroy()
}

function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => void response.once('drain', resolve))
}

export function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex')
}
