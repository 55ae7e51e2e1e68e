import { createReadStream } from 'node:fs'
import { type IncomingMessage, request as plainRequest } from 'node:http'
import { request as secureRequest } from 'node:https'
import { pipeline } from 'node:stream'
import { type Clock, sleep } from '../contracts/time.ts'
import { CommandFailure } from './arguments.ts'

/** Tries in a row that bring nothing, until the upload is given up for now. */
const TRIES_MAX = 8
/** Pause before the second try in a row; each later one doubles it. The first goes at once. */
const PAUSE_MS = 500
/** Longest that a node may be silent, ms. */
const SILENCE_MS = 120_000
const ANSWER_BYTES_MAX = 64 * 1024 * 1024

/** Where a node is, and who asks it. */
export interface NodeClient {
  readonly address: URL
  readonly key: string | undefined
  readonly clock: Clock
}

/** An answer of a node, read whole. */
export interface NodeAnswer {
  readonly status: number
  readonly text: string
}

export interface NodeRequest {
  readonly method: string
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string | { readonly file: string; readonly start: number; readonly end: number }
  /** Told of bytes of a file that were handed to the connection. */
  readonly onSent?: (bytes: number) => void
}

/** Asks a node once. @throws Error when the connection fails */
export function askNode({ address, key }: NodeClient, asked: NodeRequest): Promise<NodeAnswer> {
  const { method, path, headers = {}, body, onSent = () => {} } = asked
  const url = new URL(path, address)
  const length = typeof body === 'object' ? body.end - body.start : Buffer.byteLength(body ?? '')
  const authorization = key === undefined ? {} : { authorization: `Bearer ${key}` }
  const request = url.protocol === 'https:' ? secureRequest : plainRequest
  return new Promise((resolve, reject) => {
    const sending = request(
      url,
      { method, headers: { ...authorization, ...headers, 'content-length': length }, timeout: SILENCE_MS },
      (response) => void answerOf(response).then(resolve, reject),
    )
    sending.on('timeout', () => sending.destroy(new Error('the node does not answer')))
    sending.on('error', reject)
    if (typeof body !== 'object') sending.end(body)
    else if (length === 0) sending.end()
    else {
      const { file, start, end } = body
      const bytes = createReadStream(file, { start, end: end - 1 })
      bytes.on('data', (chunk) => onSent(chunk.length))
      // An answer may come before the end, and then says why.
      pipeline(bytes, sending, () => {})
    }
  })
}

async function answerOf(response: IncomingMessage): Promise<NodeAnswer> {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of response as AsyncIterable<Buffer>) {
    length += chunk.length
    if (length > ANSWER_BYTES_MAX) throw new CommandFailure('the answer of the node is too long')
    chunks.push(chunk)
  }
  return { status: response.statusCode ?? 0, text: Buffer.concat(chunks).toString() }
}

/** Asks until there is an answer that is no passing failure. @throws CommandFailure once the node was away for long */
export async function askUntilAnswered(node: NodeClient, asked: NodeRequest): Promise<NodeAnswer> {
  for (let tries = 1; ; tries += 1) {
    const failure = await askNode(node, asked).then(
      (answer) => (isPassing(answer) ? answerRefusal(answer) : answer),
      (error: Error) => uploadFailure(error),
    )
    if (!(failure instanceof Error)) return failure
    if (tries === TRIES_MAX) throw failure
    await sleep(node.clock, pauseMs(tries))
  }
}

/** The reason that a node gives for a refusal. */
export function answerRefusal({ status, text }: NodeAnswer): CommandFailure {
  try {
    const { error } = JSON.parse(text) as { error: { code: string; message: string } }
    return new CommandFailure(`the node refuses: ${error.message} (${error.code})`)
  } catch {
    return new CommandFailure(`the node answers with status ${status}`)
  }
}

function uploadFailure(error: Error): CommandFailure {
  if (error instanceof CommandFailure) return error
  return new CommandFailure(`the node cannot be reached: ${error.message}`)
}

const isPassing = ({ status }: NodeAnswer) => status === 429 || status >= 500

/** Ms before the try after so many in a row that brought nothing. */
const pauseMs = (tries: number) => (tries === 1 ? 0 : PAUSE_MS * 2 ** (tries - 2))

export interface UploadedFile {
  readonly path: string
  readonly bytes: number
}

const PATH = '/v1/uploads'
const TUS = { 'tus-resumable': '1.0.0' }

/** Creates an upload for a file. @returns its id @throws CommandFailure */
export async function createUpload(node: NodeClient, { bytes }: UploadedFile): Promise<string> {
  const headers = { ...TUS, 'upload-length': String(bytes) }
  const answer = await askUntilAnswered(node, { method: 'POST', path: PATH, headers })
  if (answer.status !== 201) throw answerRefusal(answer)
  return (JSON.parse(answer.text) as { upload_id: string }).upload_id
}

/**
 * Sends what an upload does not have yet, over as many connections as it takes.
 *
 * @param onProgress is told how many bytes were sent
 * @returns false: there is no such upload any more
 * @throws CommandFailure when the node refuses, or brings nothing on for long
 */
export async function finishUpload(
  node: NodeClient,
  id: string,
  { path: file, bytes }: UploadedFile,
  onProgress: (sent: number) => void,
): Promise<boolean> {
  const path = `${PATH}/${id}`
  let before = -1
  let failure = new CommandFailure('the upload does not go on')
  for (let tries = 0; tries <= TRIES_MAX; tries += 1) {
    if (tries > 0) await sleep(node.clock, pauseMs(tries))
    const nodeAnswer = await askUntilAnswered(node, { method: 'GET', path, headers: TUS })
    if (nodeAnswer.status === 404) return false
    if (nodeAnswer.status !== 200) throw answerRefusal(nodeAnswer)
    const { offset } = JSON.parse(nodeAnswer.text) as { offset: number }
    onProgress(offset)
    if (offset === bytes) return true
    if (offset > before) tries = 0
    before = offset
    failure = (await sendFrom(node, path, file, offset, bytes, onProgress)) ?? failure
  }
  throw failure
}

/** @returns why it has ended early; null: it has not. @throws CommandFailure when the node refuses */
async function sendFrom(
  node: NodeClient,
  path: string,
  file: string,
  offset: number,
  bytes: number,
  onProgress: (sent: number) => void,
): Promise<CommandFailure | null> {
  const headers = {
    ...TUS,
    'content-type': 'application/offset+octet-stream',
    'upload-offset': String(offset),
  }
  let sent = offset
  const onSent = (more: number) => {
    sent += more
    onProgress(sent)
  }
  try {
    const body = { file, start: offset, end: bytes }
    const answer = await askNode(node, { method: 'PATCH', path, headers, body, onSent })
    if (answer.status === 204) return null
    if (isPassing(answer) || answer.status === 408 || answer.status === 409) return answerRefusal(answer)
    throw answerRefusal(answer)
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (error instanceof CommandFailure) throw error
    if (code === 'ENOENT' || code === 'EACCES') throw new CommandFailure(`cannot read ${file}: ${message}`)
    return uploadFailure(error as Error)
  }
}

/** Deletes an upload that is not needed any more; one that stays is deleted after a day. */
export async function dropUpload(node: NodeClient, id: string): Promise<void> {
  await askNode(node, { method: 'DELETE', path: `${PATH}/${id}`, headers: TUS }).catch(() => {})
}
