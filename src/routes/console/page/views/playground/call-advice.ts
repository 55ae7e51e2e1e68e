import type { ErrorCode } from '../../../../../errors.ts'

/** What to do next about an error of `/v1`; what it is the error itself says. */
const ADVICE: Readonly<Partial<Record<ErrorCode, string>>> = {
  INVALID_REQUEST: 'Change the option it names and try again.',
  UNAUTHENTICATED: 'The playground key expired or was revoked. Try again to get a new one.',
  INSUFFICIENT_CREDITS: 'Ask an operator to add credits, or use a provider on your own account.',
  TRIAL_EXHAUSTED: 'Ask an operator to add credits or a plan, or use a provider on your own account.',
  BUDGET_EXCEEDED: 'Wait until next month, or ask an operator to raise the workspace budget.',
  PERMISSION_DENIED: 'Sign in again: the playground key lacks the scope for this request.',
  PLAN_NOT_ENTITLED: 'Not included in the plan. An operator can change the plan of the workspace.',
  REQUEST_TIMEOUT: 'The upload was too slow. Try a faster connection or a smaller file.',
  REQUEST_TOO_LARGE: 'Cut or compress the audio: mp3 and webm are about a tenth of the size of wav.',
  AUDIO_TOO_LARGE: 'Cut or compress the audio: mp3 and webm are about a tenth of the size of wav.',
  AUDIO_TOO_LONG: 'Cut the audio into shorter pieces.',
  UNSUPPORTED_AUDIO_FORMAT: 'Convert it to mp3, m4a, wav, webm, ogg or flac. Renaming the file isn’t enough.',
  REQUIRED_FEATURE_UNAVAILABLE: 'Turn the option off, or add a model that supports it to the route.',
  UPSTREAM_REJECTED: 'The provider rejected this input. Try another file, text or voice.',
  RATE_LIMITED: 'Wait a moment and try again.',
  UPSTREAM_ERROR: 'See the attempts below. Try again, or add a fallback model to the route.',
  UPSTREAM_TIMEOUT: 'Send it as a job, which may take longer, or add a faster model to the route.',
  UPSTREAM_OUTCOME_UNKNOWN: 'Check your provider account before you send it again.',
  NO_HEALTHY_PROVIDER: 'The list below says why each entry was skipped. Fix the route and publish it.',
  PROVIDERS_COOLING_DOWN: 'Wait as long as the error says, or add a model of another provider to the route.',
  OVERLOADED: 'Wait a moment and try again.',
  DEPENDENCY_UNAVAILABLE:
    'Part of the gateway’s storage is unavailable. Try again in a moment, or tell an operator.',
  JOB_NOT_FOUND: 'The result was purged. Resubmit the job.',
}

export function callAdvice(code: string): string {
  return ADVICE[code as ErrorCode] ?? 'Try again. If it keeps failing, give an operator the request ID.'
}
