import type { JsonObject } from '../../contracts/json.ts'
import type {
  Failure,
  FailureKind,
  Rejection,
  RejectionReason,
  UpstreamReply,
} from '../../contracts/upstream.ts'
import { type Complaint, complaintIn, readComplaint } from './complaint.ts'
import { FIELDS, MEANING_OF_CODE, MEANING_OF_STATUS, type Meaning, SENTENCES } from './failure-table.ts'
import { retryAfterMs } from './retry-after.ts'

type Head = Pick<UpstreamReply, 'status' | 'headers'>

const REASONS: Readonly<Record<FailureKind, string>> = {
  rate: 'Provider rate-limited or overloaded',
  busy: 'the account has as many calls at once as it may',
  server: 'the provider failed',
  connect: 'the provider could not be reached',
  ambiguous: 'the provider broke off',
  credential: 'the provider refused the credential, its permissions or its balance',
  model: 'the provider does not serve this model',
  limit: 'the request is over a limit of the provider, or has an option that it lacks',
  caller: 'the provider refused the request',
  content: 'the provider refused the content',
}

/** Longest prose that is kept for the log, bytes. */
const MESSAGE_MAX_BYTES = 2 * 1024

/**
 * Classifies an answer other than 2xx for failover: by documented codes first, then by sentences that replace codes,
 * then by the status; any other prose decides nothing. A 404 counts against the model, not the caller, unless it names
 * the voice: another provider may have the missing path or model.
 */
export function classify(reply: UpstreamReply): Failure {
  return classifyComplaint(readComplaint(reply), reply)
}

/** The same, of a complaint that stands inside of an answer. @param head its status is what the complaint means */
export function classifyInside(body: JsonObject, head: Head): Failure {
  return classifyComplaint(complaintIn(body), head)
}

function classifyComplaint(complaint: Complaint, { status, headers }: Head): Failure {
  const meaning = meaningOf(status, complaint)
  const { kind } = meaning
  const concernsInput = kind === 'limit' || kind === 'caller' || kind === 'content'
  return {
    kind,
    status,
    reason: REASONS[kind],
    retryAfterMs: retryAfterMs(headers, complaint.retryAfterMs),
    providerMessage: loggable(kind, status, complaint),
    ...(concernsInput ? { rejection: rejectionOf(meaning, complaint) } : {}),
  }
}

/** An answer with a good status whose content cannot be used: the provider's fault, so another entry may do better. */
export function unusable(reply: Pick<UpstreamReply, 'status'>, reason: string): Failure {
  return { kind: 'server', status: reply.status, reason, retryAfterMs: null, providerMessage: null }
}

/**
 * A call that is not sent, since this model, or the whole provider, is known to have no place for something in it.
 * That is no fault of the caller's: another entry may take the very same call.
 *
 * @param reason where it begins with the name of a field and a colon, that field is at fault
 */
export function refused(reason: string, why: RejectionReason = 'unsupported_option'): Failure {
  const param = /^([a-z_]+)(?:\.[a-z_]+)?: /.exec(reason)?.[1] ?? null
  const rejection: Rejection = { reason: why, param }
  return { kind: 'model', status: null, reason, retryAfterMs: null, providerMessage: null, rejection }
}

/** The end of an operation that has failed. */
export function failed(failure: Failure): { readonly kind: 'failed'; readonly failure: Failure } {
  return { kind: 'failed', failure }
}

function meaningOf(status: number, { codes, param, message }: Complaint): Meaning {
  // Groq and OpenAI have the code of a rate also for one request that is over it by itself, and can never pass.
  if (/^Request too large for /.test(message ?? '')) return { kind: 'limit', reason: 'too_large' }
  const coded = codes.map((code) => MEANING_OF_CODE.get(code)).find((meaning) => meaning !== undefined)
  if (coded !== undefined) return coded
  const refusal = status >= 400 && status < 500
  const said = refusal ? SENTENCES.find(([sentence]) => sentence.test(message ?? ''))?.[1] : undefined
  if (said !== undefined) return said
  const isVoice = param === 'voice' || param === 'voice_id'
  if (status === 404 && isVoice) return { kind: 'caller', reason: 'unknown_voice' }
  if ((status === 400 || status === 422) && (param === 'model' || param === 'model_id'))
    return { kind: 'model' }
  return MEANING_OF_STATUS.get(status) ?? { kind: refusal ? 'caller' : 'server' }
}

/** Why an input is refused: as the table says, else by the field that the provider names. */
function rejectionOf({ kind, reason, param: known }: Meaning, { param: given }: Complaint): Rejection {
  const param = known ?? (given === null ? null : (FIELDS.get(/^\w+/.exec(given)?.[0] ?? '') ?? null))
  if (reason !== undefined) return { reason, param }
  if (kind === 'content') return { reason: 'content_policy', param }
  if (param === null) return { reason: 'other', param }
  return { reason: param === 'audio' ? 'bad_audio' : 'unsupported_option', param }
}

/** The provider's message for the log; only its codes where it refuses the key, which it may repeat. */
function loggable(kind: FailureKind, status: number, { codes, message }: Complaint): string | null {
  const said = kind === 'credential' || status === 401 ? codes.join(', ') : (message ?? '')
  return said === '' ? null : clip(said)
}

/** At most MESSAGE_MAX_BYTES of UTF-8, not cut inside a character. */
function clip(message: string): string {
  // No UTF-16 unit takes less than a byte.
  const bytes = Buffer.from(message.slice(0, MESSAGE_MAX_BYTES + 1))
  if (bytes.byteLength <= MESSAGE_MAX_BYTES) return message
  let end = MESSAGE_MAX_BYTES
  while (((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1
  return bytes.toString('utf8', 0, end)
}
