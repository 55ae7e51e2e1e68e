-- All API keys and the moments at which some were revoked, of one and the same moment.
--
-- KEYS all revoked
-- ARGV
-- Reply {keys, revoked}: each ids and values in turn

return { redis.call('HGETALL', KEYS[1]), redis.call('HGETALL', KEYS[2]) }
