import type { BodyPiece } from '../../../src/contracts/audio.ts'
import { GatewayError } from '../../../src/contracts/errors.ts'
import type { PartOwner } from '../../../src/contracts/parts.ts'

/** Objects of calls in parts, in memory. @param failsAt the object that is not kept; absent: all are */
export function pieceStore(failsAt = Number.POSITIVE_INFINITY) {
  const kept = new Map<string, Buffer>()
  const dropped: string[] = []
  return {
    kept,
    dropped,
    bytesOf: (pieces: readonly BodyPiece[]) => Buffer.concat(pieces.map(({ key }) => kept.get(key)!)),
    objects: {
      async keepPiece(_: PartOwner, chunks: readonly Uint8Array[]) {
        if (kept.size === failsAt) throw new GatewayError('DEPENDENCY_UNAVAILABLE')
        const bytes = Buffer.concat(chunks)
        const object = `job/acme/tj_1/${kept.size}`
        kept.set(object, bytes)
        return { object, bytes: bytes.length }
      },
      async dropPieces(pieces: readonly BodyPiece[]) {
        dropped.push(...pieces.map(({ key }) => key))
      },
    },
  }
}
