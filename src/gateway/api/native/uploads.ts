import { toAbortSignal } from '../../../contracts/cancellation.ts'
import { limitsOf } from '../../../contracts/catalog.ts'
import { GatewayError } from '../../../contracts/errors.ts'
import { newId } from '../../../contracts/ids.ts'
import type { UploadOwner } from '../../../contracts/uploads.ts'
import type { Exchange, Reply } from '../../edge/exchange.ts'
import { contentTypeOf } from '../../edge/read-body.ts'
import { audioTooLarge, invalid } from '../../edge/refusals.ts'
import { appendBody } from '../../long/append.ts'
import type { Upload, Uploads, UploadTerms } from '../../long/uploads.ts'
import type { Admitted, Dependencies, EndpointCall } from '../endpoint.ts'
import { ANY_ORIGIN, endpoint, publicEndpoint } from '../endpoint.ts'
import { checkMayUpload } from '../fields.ts'
import { jsonReply } from '../json-reply.ts'
import { ANY_ORIGIN_HEADERS, type HeaderName } from '../openapi/headers.ts'
import { type Answer, type Content, json } from '../openapi/operation.ts'
import { count, shape, text } from '../openapi/schema.ts'
import {
  type ChecksumCheck,
  checkVersion,
  concatHeader,
  readChecksum,
  readOffset,
  readTerms,
  TUS_ABILITIES,
  TUS_VERSION,
  UPLOAD_TYPE,
} from './tus.ts'
import { authenticateToken, tokenIn } from './upload-token.ts'

const PATH = '/v1/uploads'
const ONE = `${PATH}/:upload_id`

/** Part of every endpoint of uploads that takes a key. */
export const UPLOADS = { tag: 'Uploads', kind: 'none', scope: 'jobs', anyOrigin: true } as const
const WITH_TOKEN = { ...UPLOADS, authenticateGrant: authenticateToken } as const

const BYTES: Content = {
  type: UPLOAD_TYPE,
  schema: { type: 'string', format: 'binary', contentMediaType: UPLOAD_TYPE },
}

const UploadView = shape('Upload', {
  upload_id: text('`audio.upload_id` of the calls that it is for, once it is finished'),
  length: count('bytes'),
  offset: count('bytes that are stored for good, from the first on'),
  expires_at: text('when it can be used no more'),
})

const TUS_HEADERS: readonly HeaderName[] = ['Tus-Resumable', 'Upload-Offset', 'Upload-Expires']
const CREATED: Answer = {
  status: 201,
  description: 'it is made; with a body, that is stored',
  contents: [json(UploadView)],
  headers: [...TUS_HEADERS, 'Location'],
}
const DONE: Answer = { status: 204, description: 'done', headers: TUS_HEADERS }
const TUS_ERRORS = ['NOT_FOUND', 'PRECONDITION_FAILED'] as const
const APPEND_ERRORS = [...TUS_ERRORS, 'CONFLICT', 'CHECKSUM_MISMATCH', 'AUDIO_TOO_LARGE'] as const

/** Methods and headers that a page of another origin may send. */
const PREFLIGHT = {
  ...ANY_ORIGIN,
  'access-control-allow-methods': 'POST, GET, HEAD, PATCH, DELETE, OPTIONS',
  'access-control-allow-headers':
    'authorization, content-type, tus-resumable, upload-length, upload-offset, upload-metadata, upload-concat, ' +
    'upload-checksum, x-http-method-override, x-requested-with, x-lk-request-id',
  'access-control-max-age': '86400',
}

const options = <const Path extends string>(path: Path, id: string) =>
  publicEndpoint({
    method: 'OPTIONS',
    path,
    id,
    tag: 'Uploads',
    summary: 'What the server of uploads can do',
    answers: [
      {
        status: 204,
        description: 'its version and extensions',
        headers: [
          ...ANY_ORIGIN_HEADERS,
          ...([
            'Access-Control-Allow-Methods',
            'Access-Control-Allow-Headers',
            'Access-Control-Max-Age',
          ] as const),
          ...(['Tus-Resumable', 'Tus-Version', 'Tus-Extension', 'Tus-Checksum-Algorithm'] as const),
        ],
      },
    ],
    errors: [],
    handle: () => ({ status: 204, headers: { ...PREFLIGHT, ...TUS_ABILITIES }, body: '' }),
  })

export const uploadOptions = options(PATH, 'uploadOptions')
export const oneUploadOptions = options(ONE, 'oneUploadOptions')

export const createUpload = endpoint({
  ...WITH_TOKEN,
  method: 'POST',
  path: PATH,
  id: 'createUpload',
  summary: 'Create a resumable upload',
  description:
    'tus 1.0 with its extensions creation, creation-with-upload, concatenation, checksum, expiration and ' +
    'termination. `Upload-Length` in bytes; a body of the type `application/offset+octet-stream` is its beginning. ' +
    'The finished upload is a source of audio for 24 hours from here on.',
  body: { contents: [BYTES], receive: beginUpload },
  answers: [CREATED],
  errors: [...APPEND_ERRORS, 'REQUIRED_FEATURE_UNAVAILABLE'],
  async handle({ deps, body: upload }) {
    const reply = await jsonReply(uploadView(upload))
    const location = uploadUrl(upload.id, deps)
    return { ...reply, status: 201, headers: { ...reply.headers, ...uploadHeaders(upload), location } }
  },
})

export const showUpload = endpoint({
  ...WITH_TOKEN,
  method: 'GET',
  path: ONE,
  id: 'showUpload',
  summary: 'How far an upload is',
  description: 'HEAD answers with the headers alone, as tus clients ask.',
  answers: [
    {
      status: 200,
      description: 'the upload',
      contents: [json(UploadView)],
      headers: [...TUS_HEADERS, 'Upload-Length', 'Upload-Metadata', 'Upload-Concat'],
    },
  ],
  errors: ['NOT_FOUND'],
  async handle(request: Admitted) {
    const upload = await found(request)
    const { length, metadata, concat } = upload
    const said = concatHeader(concat, (id) => uploadUrl(id, request.deps))
    const reply = await jsonReply(uploadView(upload))
    const headers = {
      ...{ ...reply.headers, ...uploadHeaders(upload), 'upload-length': String(length) },
      ...(metadata === '' ? {} : { 'upload-metadata': metadata }),
      ...(said === undefined ? {} : { 'upload-concat': said }),
    }
    return { ...reply, headers }
  },
})

export const appendUpload = endpoint({
  ...WITH_TOKEN,
  method: 'PATCH',
  path: ONE,
  id: 'appendUpload',
  summary: 'Add to an upload',
  description:
    'From `Upload-Offset` on, which has to be that of the upload. What came before a connection was cut is kept, ' +
    'but for at most half of it and at most 8 MiB; with `Upload-Checksum`, the body is kept whole or not at all.',
  body: { contents: [BYTES], receive: add },
  answers: [DONE],
  errors: APPEND_ERRORS,
  handle: appended,
})

/** For clients behind what lets no PATCH through. */
export const appendUploadByPost = endpoint({
  ...WITH_TOKEN,
  method: 'POST',
  path: ONE,
  id: 'appendUploadByPost',
  summary: 'Add to an upload without PATCH',
  description: 'As PATCH, with the header `X-HTTP-Method-Override: PATCH`.',
  body: {
    contents: [BYTES],
    receive(request) {
      if (request.exchange.headers['x-http-method-override'] === 'PATCH') return add(request)
      throw invalid('send X-HTTP-Method-Override: PATCH', 'X-HTTP-Method-Override')
    },
  },
  answers: [DONE],
  errors: APPEND_ERRORS,
  handle: appended,
})

export const deleteUpload = endpoint({
  ...WITH_TOKEN,
  method: 'DELETE',
  path: ONE,
  id: 'deleteUpload',
  summary: 'Delete an upload',
  answers: [{ status: 204, description: 'done', headers: ['Tus-Resumable'] }],
  errors: TUS_ERRORS,
  async handle(request: Admitted): Promise<Reply> {
    checkVersion(request.exchange)
    const { uploads } = request.deps
    const { id } = await found(request)
    await uploads.alone(id, () => uploads.remove(id, ownerOf(request)))
    return { status: 204, headers: { 'tus-resumable': TUS_VERSION }, body: '' }
  },
})

/** Creates the upload, and takes the beginning of it that may come along. */
async function beginUpload(request: Admitted): Promise<Upload> {
  const { exchange, context, deps } = request
  const { services, uploads } = deps
  checkVersion(exchange)
  const terms = readTerms(exchange)
  checkMayUpload(request)
  const token = tokenIn(exchange.headers.authorization, deps)
  const limits = limitsOf(context.principal, services.snapshot())
  const signal = toAbortSignal(exchange.signal)
  const owner = ownerOf(request)
  const whole = await wholeTerms(terms, owner, uploads, signal)
  const most = Math.min(limits.max_audio_bytes, token?.maxBytes ?? Number.POSITIVE_INFINITY)
  if (whole.length > most) throw audioTooLarge(most, whole.length)
  // A beginning that would be refused leaves no upload behind.
  const beginning = exchange.contentLength === 0 ? null : readAddition(exchange)
  if (beginning !== null && beginning.length > whole.length) throw beyondEnd(whole.length, 0)
  const id = token?.id ?? newId('upl', services.clock.wallNow())
  const upload = await uploads.create(id, owner, whole, limits.max_upload_bytes_per_workspace, signal)
  return beginning === null ? upload : append(upload, 0, beginning, request)
}

/** The bytes that a request brings, by its head. */
interface Addition {
  readonly length: number
  readonly check: ChecksumCheck | null
}

/** @throws GatewayError UNSUPPORTED_MEDIA_TYPE, LENGTH_REQUIRED, INVALID_REQUEST */
function readAddition(exchange: Exchange): Addition {
  if (contentTypeOf(exchange)?.value !== UPLOAD_TYPE)
    throw new GatewayError('UNSUPPORTED_MEDIA_TYPE', `send ${UPLOAD_TYPE}, uncompressed`)
  const { contentLength: length } = exchange
  if (length === null) throw new GatewayError('LENGTH_REQUIRED', 'send Content-Length')
  return { length, check: readChecksum(exchange) }
}

function beyondEnd(length: number, offset: number): GatewayError {
  const message = `the upload is ${length} bytes long, of which ${offset} are here`
  return new GatewayError('REQUEST_TOO_LARGE', message)
}

/** A final upload is as long as its parts, which have to be there whole. */
async function wholeTerms(
  terms: UploadTerms,
  owner: UploadOwner,
  uploads: Uploads,
  signal: AbortSignal,
): Promise<UploadTerms> {
  if (typeof terms.concat !== 'object') return terms
  const parts = await uploads.parts(terms.concat.parts, owner, signal)
  if (parts.some(({ concat, offset, length }) => concat !== 'partial' || offset < length))
    throw new GatewayError('CONFLICT', 'a final upload is of partial ones that are finished')
  return { ...terms, length: parts.reduce((sum, { length }) => sum + length, 0) }
}

async function add(request: Admitted): Promise<Upload> {
  checkVersion(request.exchange)
  const upload = await found(request)
  const { exchange } = request
  return append(upload, readOffset(exchange), readAddition(exchange), request)
}

/** Adds the body to an upload, as the only request that does. @param sentOffset where the client takes it to end */
async function append(
  { id }: Upload,
  sentOffset: number,
  { length: added, check }: Addition,
  { exchange, context, deps }: Admitted,
): Promise<Upload> {
  const { uploads, spool } = deps
  return uploads.alone(id, async (signal) => {
    // Whoever added before has left by now, and what it brought is there.
    const upload = await uploads.find(id, ownerOf({ context }), toAbortSignal(exchange.signal))
    const { offset, length, concat, isFull } = upload
    if (typeof concat === 'object')
      throw new GatewayError('PERMISSION_DENIED', 'a final upload takes no bytes')
    if (sentOffset !== offset)
      throw new GatewayError('CONFLICT', `the upload has ${offset} bytes`, { details: { offset } })
    if (added > length - offset) throw beyondEnd(length, offset)
    if (isFull) throw new GatewayError('CONFLICT', 'the upload came in too many pieces; create another')
    const workspace = context.principal.workspace.id
    const body = { exchange, spool, workspace, id, offset, length: added, signal }
    await appendBody(check === null ? body : { ...body, check })
    return { ...upload, offset: offset + added }
  })
}

function appended({ body: upload }: EndpointCall<Upload>): Reply {
  return { status: 204, headers: uploadHeaders(upload), body: '' }
}

/** @throws GatewayError as `Uploads.find`; NOT_FOUND where the token is of another one */
async function found({ exchange, context, deps }: Admitted): Promise<Upload> {
  const [id = ''] = exchange.params
  const token = tokenIn(exchange.headers.authorization, deps)
  if (token !== null && token.id !== id) throw new GatewayError('NOT_FOUND', 'there is no such upload')
  return deps.uploads.find(id, ownerOf({ context }), toAbortSignal(exchange.signal))
}

function ownerOf({ context: { principal } }: Pick<Admitted, 'context'>): UploadOwner {
  return { workspace: principal.workspace.id, app: principal.app.id }
}

/** Where an upload is: a path, where the node does not know under which origin it is reached. */
export function uploadUrl(id: string, { publicUrl = '' }: Pick<Dependencies, 'publicUrl'>): string {
  return `${publicUrl}${PATH}/${id}`
}

function uploadView({ id, length, offset, expiresAtMs }: Upload) {
  return { upload_id: id, length, offset, expires_at: new Date(expiresAtMs).toISOString() }
}

function uploadHeaders({ offset, expiresAtMs }: Upload) {
  return {
    'tus-resumable': TUS_VERSION,
    'upload-offset': String(offset),
    'upload-expires': new Date(expiresAtMs).toUTCString(),
  }
}
