"""Messages of framework.proto as plain Python objects; protobuf itself is not needed."""
