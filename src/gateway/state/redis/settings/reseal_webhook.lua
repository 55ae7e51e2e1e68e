-- Puts other texts of the same secrets in the place of those that were read.
--
-- KEYS webhook previous
-- ARGV from secret previous_from previous_secret
-- Reply 1 | 0: whether it was done; the webhook may have another secret by now
--
-- `previous_from` is empty where there was no secret before; one that has gone meanwhile is not made again. A change
-- that is sent again finds its own secret, and has been done.

local webhook, previous = KEYS[1], KEYS[2]

local secret = redis.call('HGET', webhook, 'secret')
if secret ~= ARGV[1] and secret ~= ARGV[2] then
  return 0
end
redis.call('HSET', webhook, 'secret', ARGV[2])
if ARGV[3] ~= '' and redis.call('HGET', previous, 'secret') == ARGV[3] then
  redis.call('HSET', previous, 'secret', ARGV[4])
end
return 1
