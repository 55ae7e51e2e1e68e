import type { StoredWebhook, WorkspaceSettings } from '../../../contracts/settings.ts'
import { keys } from './key-names.ts'
import { type Ask, replyInteger, replyText, replyTexts, script } from './script.ts'

const putWebhook = script('settings/put_webhook', {
  keys: ['webhook', 'previous'],
  args: ['url', 'secret', 'created_at_ms', 'keep_ms'],
})

const resealWebhook = script('settings/reseal_webhook', {
  keys: ['webhook', 'previous'],
  args: ['from', 'secret', 'previous_from', 'previous_secret'],
  reply: (reply): boolean => reply === 1,
})

const showWebhook = script('settings/show_webhook', {
  keys: ['webhook', 'previous'],
  reply: (reply): StoredWebhook | null => {
    const [url, secret, createdAtMs, previousSecret, untilMs] = replyTexts(reply)
    if (url === null) return null
    const previous =
      typeof previousSecret === 'string' ? { secret: previousSecret, untilMs: replyInteger(untilMs) } : null
    return {
      url: replyText(url),
      secret: replyText(secret),
      createdAtMs: replyInteger(createdAtMs),
      previous,
    }
  },
})

const removeWebhook = script('settings/remove_webhook', {
  keys: ['webhook', 'previous'],
  reply: (reply): boolean => reply === 1,
})

/** Settings of workspaces in Redis. */
export function createRedisSettings(ask: Ask): WorkspaceSettings {
  const places = (workspace: string) => ({
    webhook: keys.webhook(workspace),
    previous: keys.previousWebhook(workspace),
  })
  return {
    audioUrlDomains: (workspace) =>
      ask(async (redis) => {
        const json = await redis.get(keys.audioUrlDomains(workspace))
        return json === null ? [] : (JSON.parse(json) as string[])
      }),
    // A command that says the same however often it arrives needs no script.
    putAudioUrlDomains: (workspace, domains) =>
      ask(async (redis) => void (await redis.set(keys.audioUrlDomains(workspace), JSON.stringify(domains)))),
    webhook: (workspace) => ask(showWebhook(places(workspace))),
    putWebhook: (workspace, { url, secret, createdAtMs }, keepMs) =>
      ask(putWebhook({ ...places(workspace), url, secret, created_at_ms: createdAtMs, keep_ms: keepMs })),
    resealWebhook: (workspace, from, { secret, previous }) =>
      ask(
        resealWebhook({
          ...places(workspace),
          ...{ from: from.secret, secret },
          ...{ previous_from: from.previous?.secret ?? '', previous_secret: previous ?? '' },
        }),
      ),
    removeWebhook: (workspace) => ask(removeWebhook(places(workspace))),
    contentShown: (workspace) =>
      ask(async (redis) => (await redis.get(keys.contentShown(workspace))) === 'yes'),
    putContentShown: (workspace, shown) =>
      ask(async (redis) => void (await redis.set(keys.contentShown(workspace), shown ? 'yes' : 'no'))),
    forget: (workspace) => {
      const { webhook, previous } = places(workspace)
      const all = [webhook, previous, keys.audioUrlDomains(workspace), keys.contentShown(workspace)]
      return ask(async (redis) => void (await redis.del(all)))
    },
  }
}
