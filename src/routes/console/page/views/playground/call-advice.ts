import type { ErrorCode } from '../../../../../errors.ts'

/** What to do next about an error of `/v1`; what it is the error itself says. */
const ADVICE: Readonly<Partial<Record<ErrorCode, string>>> = {
  INVALID_REQUEST: 'Change the option that it names and send again.',
  UNAUTHENTICATED: 'The playground key is over or was revoked. Send again: a new one is made.',
  INSUFFICIENT_CREDITS: 'An operator adds credits; or publish a route whose entries are on your own account.',
  TRIAL_EXHAUSTED: 'An operator adds credits or a plan; or use a provider on your own account.',
  BUDGET_EXCEEDED: 'Wait for the next month, or have an operator raise the budget of the workspace.',
  PERMISSION_DENIED: 'Sign in again: the playground key lacks the scope for this call.',
  PLAN_NOT_ENTITLED: 'The plan leaves this out. An operator may change the plan of the workspace.',
  REQUEST_TIMEOUT: 'The upload was too slow. Send again from a faster line, or send a smaller file.',
  REQUEST_TOO_LARGE: 'Cut or compress the audio: mp3 or webm are a tenth of a wav.',
  AUDIO_TOO_LARGE: 'Cut or compress the audio: mp3 or webm are a tenth of a wav.',
  AUDIO_TOO_LONG: 'Cut the audio into shorter pieces.',
  UNSUPPORTED_AUDIO_FORMAT:
    'Convert it to mp3, m4a, wav, webm, ogg or flac. A name alone does not make the format.',
  REQUIRED_FEATURE_UNAVAILABLE: 'Switch the option off, or add an entry to the route that keeps it.',
  UPSTREAM_REJECTED: 'The provider does not take this input. Try another file, text or voice.',
  RATE_LIMITED: 'Wait for a moment and send again.',
  UPSTREAM_ERROR: 'Look at the attempts below. Send again, or put another entry behind these in the route.',
  UPSTREAM_TIMEOUT: 'Send it as a job, which may take longer, or put a faster entry into the route.',
  UPSTREAM_OUTCOME_UNKNOWN: 'Look at your account with the provider before you send it again.',
  NO_HEALTHY_PROVIDER: 'The list below says why each entry was left out. Mend the route and publish it.',
  PROVIDERS_COOLING_DOWN: 'Wait as long as it says, or put an entry of another provider into the route.',
  OVERLOADED: 'Wait for a moment and send again.',
  DEPENDENCY_UNAVAILABLE:
    'A store of the gateway is away. Wait for a moment and send again; else tell an operator.',
  JOB_NOT_FOUND: 'Its result was purged. Submit it again.',
}

export function callAdvice(code: string): string {
  return ADVICE[code as ErrorCode] ?? 'Send again. If it stays, tell an operator the request id.'
}
