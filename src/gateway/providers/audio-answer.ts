import type { SpeechResult } from '../../contracts/calls.ts'
import type { Deltas } from '../../contracts/operations.ts'
import type { Step, StreamReader } from '../../contracts/provider.ts'
import type { Failure, UpstreamReply, UpstreamStream } from '../../contracts/upstream.ts'
import { endingOf, isGood } from './answer.ts'
import { classify, unusable } from './failure.ts'

/** An answer, or what there is of it, that should be audio. */
export function noAudio(head: Pick<UpstreamReply, 'status'>): Failure {
  return unusable(head, 'the answer of the provider is no audio')
}

/**
 * Speech out of an answer whose body is the audio itself.
 *
 * @param mediaType what was asked for, since servers are not exact about it in their headers; null: nothing says
 *        that it is audio
 */
export function readAudio(reply: UpstreamReply, mediaType: string | null): Step<SpeechResult> {
  if (!isGood(reply)) return endingOf(classify(reply))
  const empty = reply.body.every((chunk) => chunk.byteLength === 0)
  const isAudio = mediaType !== null && !empty && !isText(reply)
  return endingOf(isAudio ? { result: { audio: reply.body, mediaType } } : noAudio(reply))
}

/** The same, chunk by chunk. What has gone out is not kept: the result holds no audio. */
export function audioReader(
  head: Pick<UpstreamStream, 'status' | 'headers'>,
  mediaType: string | null,
): StreamReader<SpeechResult, Deltas['speech']> {
  if (mediaType === null || isText(head)) {
    const failure = () => noAudio(head)
    return { push: failure, end: failure }
  }
  let receivedBytes = 0
  return {
    push(chunk) {
      receivedBytes += chunk.byteLength
      return chunk.byteLength === 0 ? [] : [{ bytes: chunk, mediaType }]
    },
    end: () => (receivedBytes === 0 ? noAudio(head) : { result: { audio: [], mediaType } }),
  }
}

/** A proxy's page, or an error with a good status. */
function isText({ headers }: Pick<UpstreamStream, 'headers'>): boolean {
  const said = (headers['content-type'] ?? '').split(';')[0]?.trim().toLowerCase() ?? ''
  return said.startsWith('text/') || said === 'application/json' || said.endsWith('+json')
}
