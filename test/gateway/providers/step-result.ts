import type { Test } from 'tap'
import type { TranscriptionResult } from '../../../src/contracts/calls.ts'
import type { Step } from '../../../src/contracts/provider.ts'

/** The result of a step that is the last. */
export function done<Result>(step: Step<Result>): Result {
  if (step.kind === 'done') return step.result
  throw new Error(step.kind === 'failed' ? step.failure.reason : step.kind)
}

/** The conversation of the fixtures of two channels, merged in time. */
export function isMergedConversation(t: Test, { text, segments, words }: TranscriptionResult): void {
  t.equal(text, 'Hello? Thanks for calling. I need help. Goodbye.')
  t.same(
    segments.map(({ id, start, text, channel, speaker }) => [id, start, text, channel, speaker]),
    [
      [0, 0.2, 'Hello?', 1, 'speaker_0'],
      [1, 1, 'Thanks for calling.', 0, 'speaker_1'],
      [2, 3, 'I need help.', 1, 'speaker_0'],
      [3, 6, 'Goodbye.', 0, 'speaker_1'],
    ],
  )
  t.same(
    words.map(({ word, channel }) => `${word} ${channel}`),
    ['Hello? 1', 'Thanks 0', 'for 0', 'calling. 0', 'I 1', 'need 1', 'help. 1', 'Goodbye. 0'],
  )
}
