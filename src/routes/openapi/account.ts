import { DomainsBody } from '../workspace-domains.ts'
import { WebhookBody } from '../workspace-webhook.ts'
import { AudioUrlDomains, Me, NewWebhook, RemovedWebhook, Webhook } from './account-answers.ts'
import { BODY_ERRORS, json, KEY_ERRORS, type Operation } from './operation.ts'

const SETTINGS = {
  tag: 'Account',
  scope: 'admin',
  limited: true,
  routed: true,
  parameters: ['TenantId'],
} as const satisfies Partial<Operation>
const DOMAINS = '/workspace/:tenant_id/audio-url-domains'
const WEBHOOK = '/workspace/:tenant_id/stt-webhook'

export const ACCOUNT: readonly Operation[] = [
  {
    method: 'GET',
    path: '/v1/me',
    id: 'me',
    tag: 'Account',
    summary: 'Current key',
    description:
      'The app, route and purposes of the key, the limits in force, and the remaining budget, up to two seconds old.',
    scope: 'inference',
    routed: true,
    answers: [{ status: 200, description: 'the key, its app and its workspace', contents: [json(Me)] }],
    errors: KEY_ERRORS.filter((code) => code !== 'RATE_LIMITED'),
  },
  {
    ...SETTINGS,
    method: 'GET',
    path: DOMAINS,
    id: 'showAudioUrlDomains',
    summary: 'List allowed audio domains',
    answers: [{ status: 200, description: 'the list', contents: [json(AudioUrlDomains)] }],
    errors: [...KEY_ERRORS, 'NOT_FOUND'],
  },
  {
    ...SETTINGS,
    method: 'PUT',
    path: DOMAINS,
    id: 'replaceAudioUrlDomains',
    summary: 'Replace allowed audio domains',
    body: [json(DomainsBody)],
    answers: [
      {
        status: 200,
        description: 'the list as stored',
        contents: [json(AudioUrlDomains)],
        headers: ['X-LK-Idempotency'],
      },
    ],
    errors: [...KEY_ERRORS, ...BODY_ERRORS, 'NOT_FOUND'],
  },
  {
    ...SETTINGS,
    method: 'PUT',
    path: WEBHOOK,
    id: 'setWebhook',
    summary: 'Set the webhook',
    description:
      'Creates a new signing secret each time. The previous one keeps signing for another 24 hours, so that ' +
      'receivers can switch over.',
    body: [json(WebhookBody)],
    answers: [
      {
        status: 200,
        description: 'the webhook and its secret',
        contents: [json(NewWebhook)],
        headers: ['X-LK-Idempotency'],
      },
    ],
    errors: [...KEY_ERRORS, ...BODY_ERRORS, 'NOT_FOUND'],
  },
  {
    ...SETTINGS,
    method: 'GET',
    path: WEBHOOK,
    id: 'showWebhook',
    summary: 'Get the webhook',
    answers: [{ status: 200, description: 'the webhook, without its secret', contents: [json(Webhook)] }],
    errors: [...KEY_ERRORS, 'NOT_FOUND'],
  },
  {
    ...SETTINGS,
    method: 'DELETE',
    path: WEBHOOK,
    id: 'removeWebhook',
    summary: 'Remove the webhook',
    answers: [
      {
        status: 200,
        description: 'whether there was a webhook',
        contents: [json(RemovedWebhook)],
        headers: ['X-LK-Idempotency'],
      },
    ],
    errors: [...KEY_ERRORS, 'NOT_FOUND'],
  },
]
