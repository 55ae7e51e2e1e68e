import { createHash } from 'node:crypto'

export function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex')
}

/** The digest of audio by its definition: SHA-256 over the SHA-256 of each MiB. */
export function digestOf(audio: Uint8Array): string {
  const leaves: Buffer[] = []
  for (let at = 0; at < audio.length; at += 1_048_576)
    leaves.push(
      createHash('sha256')
        .update(audio.subarray(at, at + 1_048_576))
        .digest(),
    )
  return sha256(Buffer.concat(leaves))
}
