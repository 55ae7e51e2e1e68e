import { ApiError } from '../../api.ts'
import { type AppKeys, callV1, wait } from './calls.ts'

/** Files from this size on are uploaded in pieces, so that a broken connection loses none of them. */
export const RESUMABLE_BYTES = 16 * 1024 * 1024
/** Bytes of one request: what is sent again at most. */
const PIECE_BYTES = 4 * 1024 * 1024
const UPLOADS = '/v1/uploads'
/** Pauses before it is tried again, ms. After the last one the upload has failed, until it is begun again. */
const PAUSES_MS = [500, 1_000, 2_000, 4_000, 8_000, 15_000, 30_000]
const TUS = { 'tus-resumable': '1.0.0' }

interface Place {
  readonly keys: AppKeys
  readonly app: string
  readonly signal: AbortSignal
}

/** Remembers uploads that are not finished, also when the page is loaded again. */
export type UploadMemory = Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>

interface ResumableSteps {
  /** So many bytes are kept. */
  readonly onSent: (sentBytes: number) => void
  /** The connection broke, and is tried again. */
  readonly onBroken: () => void
  readonly memory?: UploadMemory
}

/**
 * Uploads a file in pieces, from where an earlier try has ended.
 *
 * @returns the id of the upload
 * @throws ApiError; the signal's reason when it was aborted
 */
export async function uploadResumably(
  file: File,
  place: Place,
  { onSent, onBroken, memory = localStorage }: ResumableSteps,
): Promise<string> {
  const name = `larkway-upload/${place.app}/${file.size}/${file.lastModified}/${file.name}`
  const known = memory.getItem(name)
  const earlier = known === null ? null : await offsetOf(known, place).catch(gone)
  const id = earlier === null || known === null ? await createUpload(file, place) : known
  memory.setItem(name, id)
  let offset = earlier ?? 0
  for (let failures = 0; offset < file.size; ) {
    try {
      if (failures > 0) offset = await offsetOf(id, place)
      onSent(offset)
      const piece = file.slice(offset, offset + PIECE_BYTES)
      if (piece.size > 0) await append(id, offset, piece, place)
      offset += piece.size
      failures = 0
    } catch (error) {
      const pauseMs = PAUSES_MS[failures]
      if (pauseMs === undefined || !mayBeResumed(error)) throw error
      failures += 1
      onBroken()
      await wait(pauseMs, place.signal)
    }
  }
  onSent(file.size)
  memory.removeItem(name)
  return id
}

/** Deletes an upload that was used. It would go by itself after a day. */
export async function deleteUpload(id: string, { keys, app, signal }: Place): Promise<void> {
  await callV1(keys, app, `${UPLOADS}/${id}`, { method: 'DELETE', headers: TUS, signal }).catch(() => {})
}

/** The JSON of a transcription of an upload, out of the fields of a form. */
export function uploadBody(
  fields: readonly (readonly [name: string, value: string])[],
  id: string,
): Readonly<Record<string, unknown>> {
  const body: Record<string, unknown> = { audio: { upload_id: id } }
  for (const [name, value] of fields) {
    const list = name.endsWith('[]') ? name.slice(0, -2) : null
    if (list === null) body[name] = value === 'true' ? true : value
    else body[list] = [...((body[list] as string[] | undefined) ?? []), value]
  }
  return body
}

async function createUpload(file: File, { keys, app, signal }: Place): Promise<string> {
  const headers = { ...TUS, 'upload-length': String(file.size) }
  const answer = await callV1(keys, app, UPLOADS, { method: 'POST', headers, signal })
  return ((await answer.json()) as { readonly upload_id: string }).upload_id
}

async function append(id: string, offset: number, piece: Blob, { keys, app, signal }: Place): Promise<void> {
  const headers = {
    ...TUS,
    'upload-offset': String(offset),
    'content-type': 'application/offset+octet-stream',
  }
  await callV1(keys, app, `${UPLOADS}/${id}`, { method: 'PATCH', headers, body: piece, signal })
}

async function offsetOf(id: string, { keys, app, signal }: Place): Promise<number> {
  const answer = await callV1(keys, app, `${UPLOADS}/${id}`, { headers: TUS, signal })
  return ((await answer.json()) as { readonly offset: number }).offset
}

/** Null for an upload that is not there any more. @throws any other error */
function gone(error: unknown): null {
  if (error instanceof ApiError && error.status === 404) return null
  throw error
}

/** The connection, the gateway, or an offset that is further than it seemed, may be well a moment later. */
function mayBeResumed(error: unknown): boolean {
  if (!(error instanceof ApiError)) return false
  return error.status === 0 || error.status === 409 || error.status === 429 || error.status >= 500
}
