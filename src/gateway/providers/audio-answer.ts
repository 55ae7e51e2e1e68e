import type { SpeechResult } from '../../contracts/calls.ts'
import type { Deltas } from '../../contracts/operations.ts'
import type { Step, StreamReader } from '../../contracts/provider.ts'
import type { UpstreamReply, UpstreamStream } from '../../contracts/upstream.ts'
import { isGood } from './answer.ts'
import { classify, unusable } from './failure.ts'

const NO_AUDIO = 'the answer of the provider is no audio'

/**
 * Speech out of an answer whose body is the audio itself.
 *
 * @param mediaType what was asked for, since servers are not exact about it in their headers; null: nothing says
 *        that it is audio
 */
export function readAudio(reply: UpstreamReply, mediaType: string | null): Step<SpeechResult> {
  if (!isGood(reply)) return { kind: 'failed', failure: classify(reply) }
  const empty = reply.body.every((chunk) => chunk.byteLength === 0)
  if (mediaType === null || empty || isText(reply)) {
    return { kind: 'failed', failure: unusable(reply, NO_AUDIO) }
  }
  return { kind: 'done', result: { audio: reply.body, mediaType } }
}

/** The same, chunk by chunk. What has gone out is not kept: the result holds no audio. */
export function audioReader(
  head: Pick<UpstreamStream, 'status' | 'headers'>,
  mediaType: string | null,
): StreamReader<SpeechResult, Deltas['speech']> {
  if (mediaType === null || isText(head)) {
    const failure = () => unusable(head, NO_AUDIO)
    return { push: failure, end: failure }
  }
  let receivedBytes = 0
  return {
    push(chunk) {
      receivedBytes += chunk.byteLength
      return chunk.byteLength === 0 ? [] : [{ bytes: chunk, mediaType }]
    },
    end: () => (receivedBytes === 0 ? unusable(head, NO_AUDIO) : { result: { audio: [], mediaType } }),
  }
}

/** A proxy's page, or an error with a good status. */
function isText({ headers }: Pick<UpstreamStream, 'headers'>): boolean {
  const said = (headers['content-type'] ?? '').split(';')[0]?.trim().toLowerCase() ?? ''
  return said.startsWith('text/') || said === 'application/json' || said.endsWith('+json')
}
