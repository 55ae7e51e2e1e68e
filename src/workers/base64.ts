import { decodeBase64 } from './base64-text.ts'

/** Views of shared memory: the message carries offsets and lengths, never the bytes. */
export interface Base64Task {
  readonly text: Uint8Array<SharedArrayBuffer>
  readonly out: Uint8Array<SharedArrayBuffer>
}

/** The task of the worker threads. Piscina calls the default export of its file; this is the name it is given. */
export function decode({ text, out }: Base64Task): number {
  return decodeBase64(text, out)
}
