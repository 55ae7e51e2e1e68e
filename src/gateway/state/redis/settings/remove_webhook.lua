-- Removes the webhook of a workspace and its secrets.
--
-- KEYS webhook previous
-- ARGV
-- Reply 1 | 0: whether there was one

redis.call('DEL', KEYS[2])
return redis.call('DEL', KEYS[1])
