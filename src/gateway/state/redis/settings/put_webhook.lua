-- Replaces the webhook of a workspace; the secret of the one before stays for a while.
--
-- KEYS webhook previous
-- ARGV url secret created_at_ms keep_ms
-- Reply 1
--
-- Putting the same secret again rotates nothing: the answer of the first time may have been lost, and the secret before
-- it must not be forgotten for that. `previous` goes by itself when its time is over.

local webhook, previous = KEYS[1], KEYS[2]
local keep_ms = tonumber(ARGV[4])

local old = redis.call('HGET', webhook, 'secret')
if old ~= ARGV[2] then
  redis.call('DEL', previous)
  if old and keep_ms > 0 then
    local time = redis.call('TIME')
    local until_ms = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) + keep_ms)
    redis.call('HSET', previous, 'secret', old, 'until_ms', until_ms)
    redis.call('PEXPIREAT', previous, until_ms)
  end
end
redis.call('HSET', webhook, 'url', ARGV[1], 'secret', ARGV[2], 'created_at_ms', ARGV[3])
return 1
