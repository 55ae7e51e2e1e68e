import { invalid } from '../inbound/refusals.ts'
import { judgeWebhookUrl } from '../outbound/webhook-url.ts'

/**
 * The address that webhooks of a workspace go to, as it will be called.
 *
 * What can be told from the text is refused here, for the sake of whoever sets it. It protects nothing: a public name
 * may resolve to any address, today or later, so every delivery has its address checked again, after the look-up.
 *
 * @param insecure also takes http at 127.0.0.1 and localhost
 * @throws GatewayError INVALID_REQUEST naming `url`
 */
export function readWebhookUrl(text: string, insecure: boolean): string {
  const judged = judgeWebhookUrl(text, insecure)
  if ('fault' in judged) throw invalid(`url: ${judged.fault}`, 'url')
  return judged.url.href
}
