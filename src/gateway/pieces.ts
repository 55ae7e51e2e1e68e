import type { SpeechResult, TranscriptionResult } from '../schema/calls.ts'
import type { ChatDelta, ChatResult } from '../schema/chat.ts'
import type { Deltas, Results, StreamedName } from '../schema/operations.ts'

/** A whole answer as the pieces of a stream, for entries that do not stream. */
export async function* piecesOf<K extends StreamedName>(
  operation: K,
  result: Results[K],
): AsyncGenerator<Deltas[K], Results[K], void> {
  for (const piece of PIECES[operation](result)) yield piece
  return result
}

/** How many bytes of a piece are kept for the whole, about; sound is not kept. */
export function bytesOf(piece: Deltas[StreamedName]): number {
  if (typeof piece === 'string') return piece.length
  if ('bytes' in piece) return 0
  if (piece.type === 'text') return piece.text.length
  return piece.type === 'audio' ? piece.base64.length : piece.arguments.length
}

const PIECES: { readonly [K in StreamedName]: (result: Results[K]) => Iterable<Deltas[K]> } = {
  transcription: ({ text }: TranscriptionResult) => (text === '' ? [] : [text]),
  speech: ({ audio, mediaType }: SpeechResult) => audio.map((bytes) => ({ bytes, mediaType })),
  chat: chatPieces,
  complete: chatPieces,
  vision: chatPieces,
}

function* chatPieces({ content, tool_calls: calls, audio }: ChatResult): Generator<ChatDelta> {
  if (content !== '') yield { type: 'text', text: content }
  if (audio !== null) yield { type: 'audio', base64: audio.base64 }
  for (const [index, call] of calls.entries()) yield { type: 'tool_call', index, ...call }
}
