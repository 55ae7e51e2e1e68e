import type { Static } from 'typebox'
import type * as shapes from '../answer-shapes.ts'

/** GET /workspaces/:workspace/audio-url-domains */
export type DomainsAnswer = Static<typeof shapes.Domains>

/** GET /workspaces/:workspace/webhook; PUT answers `signing_secret` with it, once. */
export type WebhookAnswer = Static<typeof shapes.ManagedWebhook>

/** GET …/webhook/deliveries → {deliveries}: those that wait or were given up, newest first */
export type DeliveryAnswer = Static<typeof shapes.Delivery>

/** POST …/webhook/test */
export type WebhookTestAnswer = Static<typeof shapes.WebhookTest>
