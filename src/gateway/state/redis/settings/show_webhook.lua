-- The webhook of a workspace, and the secret before its own while that is still valid.
--
-- KEYS webhook previous
-- ARGV
-- Reply {url, secret, created_at_ms, previous_secret, until_ms}: nulls where there is no webhook, or no secret before

local now = redis.call('HMGET', KEYS[1], 'url', 'secret', 'created_at_ms')
local before = redis.call('HMGET', KEYS[2], 'secret', 'until_ms')
return { now[1], now[2], now[3], before[1], before[2] }
