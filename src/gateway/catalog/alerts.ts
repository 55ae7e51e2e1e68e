import { ALERT_KINDS, type AlertCondition, type AlertRule, type AlertTerms } from '../../contracts/alerts.ts'
import { judgeWebhookUrl } from '../outbound/remote-url.ts'
import type { AlertFields, AlertRuleFields } from './file.ts'
import type { Issues, Path } from './issues.ts'
import { resolveSecret, type SecretSources } from './secret.ts'

const SECRET = /^whsec_([A-Za-z0-9+/]+={0,2})$/
/** Length of a key, as Standard Webhooks asks for it. */
const SECRET_BYTES = { least: 24, most: 64 }

export interface AlertContext {
  readonly workspaces: ReadonlySet<string>
  readonly providers: ReadonlySet<string>
  readonly sources: SecretSources
}

/** Resolves what is watched and who is told. Null when it is invalid; every reason is added to `issues`. */
export function resolveAlerts(fields: AlertFields, context: AlertContext, issues: Issues): AlertTerms | null {
  const { webhook, recover_after_seconds: recover = 300, rules } = fields
  // Whether plain HTTP to this machine is meant is the environment's to say, when it is sent.
  const judged = judgeWebhookUrl(webhook.url, true)
  if ('issue' in judged) issues.add(['alerts', 'webhook', 'url'], judged.issue)
  const secret = secretOf(webhook.secret, context.sources, issues)
  const resolved = Object.entries(rules).map(([name, rule]) => resolveRule(name, rule, context, issues))
  if ('issue' in judged || secret === null) return null
  return {
    url: judged.url.href,
    secret,
    recoverAfterMs: recover * 1_000,
    rules: resolved.filter((rule) => rule !== null),
  }
}

function secretOf(reference: string, sources: SecretSources, issues: Issues): string | null {
  const { value, issue } = resolveSecret(reference, 'alerts', sources, issueOfSecret)
  if (issue !== undefined) issues.add(['alerts', 'webhook', 'secret'], issue)
  return value ?? null
}

function issueOfSecret(value: string): string | null {
  const bytes = Buffer.from(SECRET.exec(value)?.[1] ?? '', 'base64').length
  const isKey = bytes >= SECRET_BYTES.least && bytes <= SECRET_BYTES.most
  return isKey ? null : 'must lead to whsec_ and the base64 of 24 to 64 random bytes'
}

function resolveRule(
  name: string,
  fields: AlertRuleFields,
  { workspaces, providers }: AlertContext,
  issues: Issues,
): AlertRule | null {
  const path: Path = ['alerts', 'rules', name]
  const kinds = ALERT_KINDS.filter((kind) => fields[kind] !== undefined)
  if (kinds.length !== 1) {
    issues.add(path, `must have one of ${ALERT_KINDS.join(', ')}`)
    return null
  }
  const condition = conditionOf(fields)
  if (condition === null) return null
  if ('workspace' in condition && condition.workspace !== null && !workspaces.has(condition.workspace))
    issues.add([...path, condition.kind, 'workspace'], `there is no workspace "${condition.workspace}"`)
  if ('provider' in condition && condition.provider !== null && !providers.has(condition.provider))
    issues.add([...path, condition.kind, 'provider'], `there is no provider "${condition.provider}"`)
  if (condition.kind === 'backlog' && condition.jobs === null && condition.ageMs === null)
    issues.add([...path, 'backlog'], 'must have `jobs`, `seconds` or both')
  return { name, ...condition }
}

function conditionOf(fields: AlertRuleFields): AlertCondition | null {
  const {
    budget,
    end_user_budget: ofEndUsers,
    error_share,
    breaker_open,
    dead_webhooks,
    backlog,
    model_ends,
  } = fields
  if (budget !== undefined)
    return { kind: 'budget', share: budget.share ?? 0.8, workspace: budget.workspace ?? null }
  if (ofEndUsers !== undefined) {
    const { share = 0.8, workspace = null } = ofEndUsers
    return { kind: 'end_user_budget', share, workspace }
  }
  if (error_share !== undefined) {
    const { share, window_seconds = 300, min_calls = 20, provider = null } = error_share
    return { kind: 'error_share', share, minCalls: min_calls, windowMs: window_seconds * 1_000, provider }
  }
  if (breaker_open !== undefined) {
    const { seconds = 300, provider = null } = breaker_open
    return { kind: 'breaker_open', forMs: seconds * 1_000, provider }
  }
  if (dead_webhooks !== undefined) {
    const { events = 1, window_seconds = 3_600, workspace = null } = dead_webhooks
    return { kind: 'dead_webhooks', events, windowMs: window_seconds * 1_000, workspace }
  }
  if (backlog !== undefined) {
    const { jobs = null, seconds } = backlog
    return { kind: 'backlog', jobs, ageMs: seconds === undefined ? null : seconds * 1_000 }
  }
  if (fields.state_lost !== undefined) return { kind: 'state_lost' }
  return model_ends === undefined ? null : { kind: 'model_ends', days: model_ends.days ?? 30 }
}
