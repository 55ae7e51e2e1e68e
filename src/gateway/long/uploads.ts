import type { AudioRef, BodyPiece } from '../../contracts/audio.ts'
import { GatewayError } from '../../contracts/errors.ts'
import { idTimeMs } from '../../contracts/ids.ts'
import type { ObjectInfo, Objects } from '../../contracts/objects.ts'
import { type SealContext, seal, unseal } from '../../contracts/sealing.ts'
import { type Clock, systemClock } from '../../contracts/time.ts'
import type { UploadedAudio, UploadOwner, UploadUser } from '../../contracts/uploads.ts'
import { isUploadId, UPLOAD_SECONDS, uploadIdIn } from '../../contracts/uploads.ts'
import { audioTooLarge, invalidField } from '../edge/refusals.ts'
import { chunksOf, copyBytes, objectBytes } from '../storage/body-bytes.ts'
import { keySegment } from '../storage/key.ts'

/*
 * Resumable uploads, all of whose state is in the object store, so that every node can go on with any of them:
 *
 *   resumable/<workspace>/<id>/info-<length>            what was said of it when it was created, sealed as secrets are:
 *                                                       `Upload-Metadata` is the caller's; `final-` without bytes
 *   resumable/<workspace>/<id>/<start>-<end>-<random>   bytes of it; an object is whole or not there
 *
 * The offset of an upload is the end of the pieces that follow one another from its first byte on. Two requests that
 * add at the same offset leave pieces that overlap: of those the longest counts, and nothing that was told is lost.
 */

const INFO = /^(info|final)-(\d{1,15})$/
const PIECE = /^(\d{15})-(\d{15})-[0-9a-f]{16}$/
const DIGITS = 15
/** Objects of one upload: beyond that it has to come in larger pieces. Each listing reads all of their names. */
const PIECES_MAX = 10_000
/** Uploads of a workspace at once: each creation looks through all of them. */
const UPLOADS_MAX = 1_000
/** Bytes that requests at the same offset may leave beside those that count. */
const SURPLUS_BYTES = 64 * 1024 * 1024

/** The description of an upload when it is created. */
export interface UploadTerms {
  readonly length: number
  /** `Upload-Metadata`, as it was sent. */
  readonly metadata: string
  /** Absent: it is used by itself. `partial`: it is for a final one, which has no bytes but those of its `parts`. */
  readonly concat?: 'partial' | { readonly parts: readonly string[] }
}

/** An upload as the store has it. */
export interface Upload extends UploadTerms {
  readonly id: string
  /** Bytes that are there for good, from the first on. */
  readonly offset: number
  /** Epoch milliseconds. */
  readonly expiresAtMs: number
  /** The bytes up to `offset`; a final one has none of its own. */
  readonly pieces: readonly BodyPiece[]
  /** It takes no more, for there are too many pieces, or too many bytes twice. */
  readonly isFull: boolean
}

type Info = UploadOwner & UploadTerms

interface Piece {
  readonly key: string
  readonly start: number
  readonly end: number
}

/** The name of a piece, but for its random end. */
export function pieceName(start: number, end: number): string {
  return `${String(start).padStart(DIGITS, '0')}-${String(end).padStart(DIGITS, '0')}-`
}

export class Uploads implements UploadedAudio {
  readonly #objects: Objects
  readonly #secretKeys: readonly Buffer[]
  readonly #clock: Clock
  readonly #busy = new Map<string, { readonly leaving: AbortController; readonly done: Promise<void> }>()

  /** @param secretKeys as `readSecretKeys` returns them: all nodes have the same */
  constructor(objects: Objects, secretKeys: readonly Buffer[], clock: Clock = systemClock) {
    this.#objects = objects
    this.#secretKeys = secretKeys
    this.#clock = clock
  }

  /**
   * Creates an upload.
   *
   * @param id as `newId('upl')` makes them: when it was made is when the upload begins
   * @param quotaBytes that all uploads of the workspace may have together, by their lengths
   * @throws GatewayError CONFLICT where there is one of that id, or too many of all; REQUEST_TOO_LARGE; as `find` for
   *         parts
   */
  async create(
    id: string,
    owner: UploadOwner,
    terms: UploadTerms,
    quotaBytes: number,
    signal: AbortSignal,
  ): Promise<Upload> {
    const { length, concat } = terms
    const isFinal = typeof concat === 'object'
    // A final one takes no room: its bytes are those of its parts.
    if (await this.#isKnown(id, owner, quotaBytes - (isFinal ? 0 : length)))
      throw new GatewayError('CONFLICT', 'the upload of this token was created before')
    const info: Info = { ...owner, ...terms }
    const bytes = Buffer.from(seal(this.#secretKeys, JSON.stringify(info), uploadContext(owner)))
    const key = `${folderOf(id, owner)}${isFinal ? 'final' : 'info'}-${length}`
    await this.#objects.put(key, chunksOf(bytes), bytes.length, { signal })
    return this.#uploadOf(id, info, [])
  }

  /** @throws GatewayError NOT_FOUND for one that is not there, has expired, or is another app's; nothing tells which */
  async find(id: string, owner: UploadOwner, signal: AbortSignal): Promise<Upload> {
    if (!isUploadId(id) || expiryOf(id) <= this.#clock.wallNow()) throw noUpload()
    const listed: ObjectInfo[] = []
    for await (const object of this.#objects.list(folderOf(id, owner))) listed.push(object)
    const infoObject = listed.find(({ key }) => INFO.test(objectName(key)))
    const info = infoObject === undefined ? null : await this.#read(infoObject, owner, signal)
    if (info === null || info.workspace !== owner.workspace || info.app !== owner.app) throw noUpload()
    const upload = this.#uploadOf(id, info, listed)
    if (upload.expiresAtMs <= this.#clock.wallNow()) throw noUpload()
    return upload
  }

  async at(url: string, user: UploadUser, signal: AbortSignal): Promise<AudioRef | null> {
    const id = uploadIdIn(url)
    if (id === null) return null
    const upload = await this.find(id, user, signal).catch((error: unknown) => {
      throw isNotFound(error) ? unusable('of an upload of this app that has not expired') : error
    })
    if (upload.concat === 'partial') throw unusable('of an upload that is not partial')
    const pieces =
      upload.concat === undefined ? [upload] : await this.parts(upload.concat.parts, user, signal)
    if (pieces.some(({ offset, length }) => offset < length)) throw unusable('of a finished upload')
    const { length, metadata } = upload
    if (length > user.maxBytes) throw audioTooLarge(user.maxBytes, length)
    return {
      source: { kind: 'pieces', pieces: pieces.flatMap((part) => part.pieces) },
      ...{ offset: 0, length, encoding: 'identity', decodedBytes: length, canonical: true },
      mediaType: metadataOf(metadata, 'filetype'),
      filename: metadataOf(metadata, 'filename'),
    }
  }

  /** The parts of a final upload, in their order. @throws GatewayError as `find` */
  async parts(ids: readonly string[], owner: UploadOwner, signal: AbortSignal): Promise<readonly Upload[]> {
    const found = new Map<string, Upload>()
    for (const id of new Set(ids)) found.set(id, await this.find(id, owner, signal))
    return ids.map((id) => found.get(id)!)
  }

  /** Deletes an upload. The sweep deletes what is added to it meanwhile. */
  async remove(id: string, owner: UploadOwner): Promise<void> {
    const keys: string[] = []
    for await (const { key } of this.#objects.list(folderOf(id, owner))) keys.push(key)
    // With its info the upload is gone, whatever is left of it.
    keys.sort((a, b) => Number(INFO.test(objectName(b))) - Number(INFO.test(objectName(a))))
    for (const key of keys) await this.#objects.remove(key)
  }

  /**
   * Has one request at a time add to an upload, on this node: the newest, for those before it are of connections that
   * their client has given up.
   *
   * @param act is given what aborts once another request wants to go on
   */
  async alone<Done>(id: string, act: (signal: AbortSignal) => Promise<Done>): Promise<Done> {
    for (let before = this.#busy.get(id); before !== undefined; before = this.#busy.get(id)) {
      before.leaving.abort(new GatewayError('CONFLICT', 'another request goes on with this upload'))
      await before.done
    }
    const leaving = new AbortController()
    const acting = act(leaving.signal)
    const done = acting.then(
      () => void this.#busy.delete(id),
      () => void this.#busy.delete(id),
    )
    this.#busy.set(id, { leaving, done })
    return acting
  }

  /** Whether the id is in use. @throws GatewayError REQUEST_TOO_LARGE where uploads have more than `bytes`, CONFLICT */
  async #isKnown(id: string, owner: UploadOwner, bytes: number): Promise<boolean> {
    let known = false
    let used = 0
    let count = 0
    for await (const { key } of this.#objects.list(`resumable/${keySegment(owner.workspace)}/`)) {
      const [, kind, length] = INFO.exec(objectName(key)) ?? []
      const other = key.split('/')[2]!
      if (kind === undefined || expiryOf(other) <= this.#clock.wallNow()) continue
      known ||= other === id
      count += 1
      if (kind === 'info') used += Number(length)
    }
    if (used > bytes) throw overQuota(used)
    if (count >= UPLOADS_MAX)
      throw new GatewayError(
        'CONFLICT',
        `the workspace has ${UPLOADS_MAX} uploads; delete those that are not needed`,
      )
    return known
  }

  /** Null: it was sealed with a key that is no longer there. */
  async #read({ key, bytes }: ObjectInfo, owner: UploadOwner, signal: AbortSignal): Promise<Info | null> {
    const copy = await copyBytes(objectBytes(this.#objects, key, 0, bytes, signal), bytes)
    const text = unseal(this.#secretKeys, Buffer.from(copy).toString(), uploadContext(owner))
    return text === null ? null : (JSON.parse(text) as Info)
  }

  #uploadOf(id: string, info: Info, listed: readonly ObjectInfo[]): Upload {
    const { length, metadata, concat } = info
    // A final one is there for as long as all of its parts are.
    const parts = typeof concat === 'object' ? concat.parts : []
    const expiresAtMs = Math.min(...[id, ...parts].map(expiryOf))
    const terms = { id, length, metadata, expiresAtMs, ...(concat === undefined ? {} : { concat }) }
    if (typeof concat === 'object') return { ...terms, offset: length, pieces: [], isFull: true }
    const found = listed.flatMap(({ key }) => pieceIn(key))
    const stored = found.reduce((sum, { start, end }) => sum + end - start, 0)
    const isFull = found.length >= PIECES_MAX || stored > 2 * length + SURPLUS_BYTES
    const pieces = inOrder(found)
    return { ...terms, offset: pieces.reduce((sum, piece) => sum + piece.length, 0), pieces, isFull }
  }
}

/** Pieces that follow one another from the first byte on, each from where the one before ends. */
function inOrder(found: readonly Piece[]): BodyPiece[] {
  const sorted = [...found].sort((a, b) => a.start - b.start || b.end - a.end)
  const pieces: BodyPiece[] = []
  let end = 0
  for (let at = 0; at < sorted.length; ) {
    let best: Piece | null = null
    for (; at < sorted.length && sorted[at]!.start <= end; at += 1)
      if (sorted[at]!.end > (best?.end ?? end)) best = sorted[at]!
    if (best === null) break
    pieces.push({ key: best.key, start: end - best.start, length: best.end - end })
    end = best.end
  }
  return pieces
}

function pieceIn(key: string): Piece[] {
  const [, start, end] = PIECE.exec(objectName(key)) ?? []
  return start === undefined ? [] : [{ key, start: Number(start), end: Number(end) }]
}

function folderOf(id: string, { workspace }: UploadOwner): string {
  return `resumable/${keySegment(workspace)}/${id}/`
}

function uploadContext({ workspace }: UploadOwner): SealContext {
  return { purpose: 'resumable upload', workspace }
}

function objectName(key: string): string {
  return key.slice(key.lastIndexOf('/') + 1)
}

/** When nothing of an upload is of use any more, epoch milliseconds. */
function expiryOf(id: string): number {
  return idTimeMs(id) + UPLOAD_SECONDS * 1000
}

/** A value of `Upload-Metadata`: pairs of a key and base64, with commas between them. Null: it has none. */
function metadataOf(metadata: string, wanted: string): string | null {
  for (const pair of metadata.split(',')) {
    const [key, value = ''] = pair.trim().split(' ')
    if (key === wanted && value !== '') return Buffer.from(value, 'base64').toString()
  }
  return null
}

function noUpload(): GatewayError {
  return new GatewayError('NOT_FOUND', 'there is no such upload')
}

function isNotFound(error: unknown): boolean {
  return error instanceof GatewayError && error.code === 'NOT_FOUND'
}

function unusable(what: string): GatewayError {
  return invalidField('audio.upload_id', `must be the id ${what}`)
}

function overQuota(used: number): GatewayError {
  return new GatewayError('REQUEST_TOO_LARGE', 'the uploads of the workspace have no room for this one', {
    details: { limit: 'max_upload_bytes_per_workspace', used_bytes: used },
  })
}
